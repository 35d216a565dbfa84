"""What a learner has done, and what comes next; all of it derived from the events of their work.

history    attempts, predictions and hints, exercise by exercise
milestones what a learner's code has produced
page       the progress page; `terminal`: the same in a terminal, `make progress`
hint       `make hint`      solution   `make solution`
"""
