# %% [markdown] id=w00-title
# # Week 0 · Start here
#
# In about 30 minutes you will have solved four small exercises and know how every lesson of this course works: what a
# check says when you are right, what it says when you are not, and what to do when you are stuck.
#
# You build PyTorch here, piece by piece, and every piece is compared with PyTorch itself. You need Python, and the
# patience to read an error message to its end.
#
# **How to run a cell**: click it and press Shift+Enter.
# %% id=w00-setup role=setup
import torch

import labkit
from labkit import check

# %% [markdown] id=w00-surprise
# ## A surprise first
#
# Three students measured the same three rods. `measured` is a column of shape (3, 1), `true` a row of shape (3,). The
# measurements are perfect, so their mean squared error should be 0. Guess what the cell prints, then run it.
# %% id=w00-surprise-code
measured = torch.tensor([[1.0], [2.0], [3.0]])  # shape (3, 1)
true = torch.tensor([1.0, 2.0, 3.0])  # shape (3,)
error = measured - true
print(f"mean squared error: {(error**2).mean():.3f}, taken over {error.numel()} numbers")


# %% [markdown] id=w00-surprise-after
# Nine numbers, not three, and no error message: the two shapes were stretched to (3, 3) and every rod was compared with
# every other. A wrong shape that goes on running is the most common bug in this field. That is why checks in this
# course look at the shape before they look at any value. Week 1 takes stretching apart; today you meet the checks.
# %% [markdown] id=w00-answer-md
# ## Exercise
#
# Every exercise is a cell with a gap, followed by a cell that checks it. Run the two cells below as they are: the check
# says **not started**. Then replace the line that starts with `raise` by one that returns the number 42, and run both
# again.
# %% id=w00-answer role=exercise ex=w00.answer
def answer() -> int:
    """Return 42."""
    ### BEGIN SOLUTION
    return 42
    ### END SOLUTION


# %% id=w00-answer-check role=check ex=w00.answer
check("w00.answer", answer)


# %% [markdown] id=w00-rows-md
# ## Exercise
#
# `x` holds one row per student and one column per test. You want each student's mean, in a shape that lines up with `x`
# again, so that `x - row_means(x)` is meaningful: for `x` of shape (2, 3) the result has shape (2, 1).
#
# ```
# x = [[1., 2., 6.],        row_means(x) = [[3.],
#      [0., 4., 8.]]                        [4.]]
# ```
#
# **First get it wrong on purpose**: write `return x.mean(dim=1)` and run the check. Read the box from top to bottom. It
# names the case, your shape and torch's shape, the likely cause, and a line that gives you the inputs of that case; the
# cell after the check plays with them. Then mend it. The page that lists the arguments of `mean` is
# [torch.mean](https://docs.pytorch.org/docs/2.13/generated/torch.mean.html).
# %% id=w00-rows role=exercise ex=w00.row_means
def row_means(x: torch.Tensor) -> torch.Tensor:
    """The mean of each row, kept as a column: (rows, columns) -> (rows, 1)."""
    ### BEGIN SOLUTION
    return x.mean(dim=1, keepdim=True)
    ### END SOLUTION


# %% id=w00-rows-check role=check ex=w00.row_means
check("w00.row_means", row_means)
# %% id=w00-rows-play
x = labkit.case("w00.row_means", "2 by 3")["x"]  # in another notebook, `import labkit` first
print("x has shape", tuple(x.shape), "and x.mean(dim=1) has shape", tuple(x.mean(dim=1).shape))


# %% [markdown] id=w00-shapes-md
# ## Exercise
#
# Some exercises ask what will happen *before* you run anything. Write down what you think; a wrong prediction costs
# nothing and teaches more than a right one. Find out why it was wrong, correct it, and the check passes. Your first
# answers are remembered, and `make progress` shows how well you know what you know: that is what `sure` is for.
#
# What is the shape of each of these?
#
# | | expression |
# |---|---|
# {questions}
#
# Replace each `...` by a tuple such as `(7, 2)`; a shape with one axis is written `(7,)`. Set `sure` to how many of the
# three you expect to have right.
# %% id=w00-shapes role=exercise ex=w00.shapes
### BEGIN SOLUTION
prediction = {"a": (2, 3), "b": (3,), "c": (4, 5)}
sure = 3
### STUB
# prediction = {"a": ..., "b": ..., "c": ...}
# sure = ...
### END SOLUTION
# %% id=w00-shapes-check role=check ex=w00.shapes
check("w00.shapes", prediction, sure=sure)
# %% [markdown] id=w00-shapes-after
# Now run them. If one surprises you, change it in the cell below until it does not.
# %% id=w00-shapes-run
print("a", tuple((torch.zeros(2, 3) + torch.zeros(3)).shape))
print("b", tuple(torch.zeros(2, 3).sum(dim=0).shape))
print("c", tuple((torch.zeros(4, 1) * torch.zeros(1, 5)).shape))


# %% [markdown] id=w00-average-md
# ## Exercise
#
# The last room of every week is a clinic: code that runs, and is wrong. You do two things, and both are checked: *name*
# the fault, and *mend* it. `average([2.0, 4.0, 9.0])` should be 5. Run the cell below and see what it gives.
# %% id=w00-average-symptom
def average_as_found(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total = total + value
    return total / (len(values) - 1)


print(average_as_found([2.0, 4.0, 9.0]))
# %% [markdown] id=w00-average-menu
# Set `fault` to the one you see, in quotes, and mend the code: `"divides by n - 1"`, `"skips the first value"` or
# `"integer division"`. Mend the loop itself; a library's mean would hide what was wrong.
# %% id=w00-average role=exercise ex=w00.average
### BEGIN SOLUTION
fault = "divides by n - 1"


def average(values: list[float]) -> float:
    """The arithmetic mean of a list of at least one number."""
    total = 0.0
    for value in values:
        total = total + value
    return total / len(values)


### STUB
# fault = ...
#
#
# def average(values: list[float]) -> float:
#     """The arithmetic mean of a list of at least one number."""
#     total = 0.0
#     for value in values:
#         total = total + value
#     return total / (len(values) - 1)
### END SOLUTION
# %% id=w00-average-check role=check ex=w00.average
check("w00.average", average, fault=fault)
# %% [markdown] id=w00-stuck
# ## When you are stuck
#
# | you want | in a terminal (File → New → Terminal) |
# |---|---|
# | a nudge; a second and third call say more | `make hint EX=w00.row_means` |
# | to start an exercise again; what you wrote is backed up | `make reset EX=w00.row_means` |
# | the inputs of a failing case | `import labkit`, then `labkit.case("w00.row_means", "2 by 3")`, in a new cell |
# | the whole traceback of an error | `import labkit`, then `labkit.traceback()`, in a new cell |
# | everything graded from a fresh start | `make check`, or `make check WEEK=0` |
# | a verdict each time you save | `make watch` |
# | to see what you have done | `make progress` |
# | to know whether the set-up is sound | `make doctor` |
#
# `EX=` takes the name that stands in the check cell. Without make, type `python -m labkit hint w00.row_means` and so
# on.
#
# Read the box again before anything else: it names the first thing that is wrong, and there may be more behind it. If
# twenty minutes bring nothing new, take the third hint and move on: a later exercise that needs this one says so.
# %% [markdown] id=w00-built
# ## What you know now
#
# - An exercise is a cell with a gap, its check stands below it, and **Run All** stops at the first unfinished one.
# - A failed check names the first difference and, where it can, the mistake behind it.
# - Predictions are for you. Faults are named before they are mended.
# - `make check` is the judge: it rebuilds the notebook from the release and your answers, and runs it from a fresh
#   start.
#
# The question people ask next: *may I look things up?* Yes, in torch's documentation, always. Week 1 begins with what a
# tensor is once you take the cover off: a row of numbers, and a rule for reading it.
# %% [markdown] id=w00-instructor role=instructor
# **Goals.** Learners can run cells, read a failed check to its end, and know the commands. **50 minutes**: 5 the
# surprise, on the projector, with votes; 10 exercises {w00.answer} and {w00.row_means} together, the deliberate failure
# read aloud; 10 exercise {w00.shapes}, predictions by show of hands before anybody types; 15 exercise {w00.average} in
# pairs; 10 `make check`, `make watch`, `make hint`, `make progress` from a terminal.
#
# **Misconceptions to expect.** Printing instead of returning (exercise {w00.answer}); `dim=0` read as "along the rows"
# (exercise {w00.row_means}: it is the axis that disappears); `*` read as a matrix product (exercise {w00.shapes}).
