"""The grader: compare, diagnose, say it well.

compare    yours against torch's: type, shape, dtype, values, in that order
run        one answer on one case: outputs, gradients, what it touched
rules      which operations an answer used, and whether it may
judge      the verdict ladder for each kind of exercise
verdict    what is said, as text, HTML and a record
check      what a notebook calls
"""
