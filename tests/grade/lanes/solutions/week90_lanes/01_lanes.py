# %% [markdown] id=w90-title
# # A small lesson
#
# Five exercises; the second builds on the first.

# %% id=w90-setup role=setup
from labkit import check

FACTOR = 2


# %% id=w90-double role=exercise ex=w90.double
def double(values):
    ### BEGIN SOLUTION
    return [FACTOR * value for value in values]
    ### END SOLUTION


# %% id=w90-double-check role=check ex=w90.double
check("w90.double", double)


# %% id=w90-total role=exercise ex=w90.total
def total(values):
    """The sum of the doubled values; use `double`."""
    ### BEGIN SOLUTION
    return sum(double(values))
    ### END SOLUTION


# %% id=w90-total-check role=check ex=w90.total
check("w90.total", total)

# %% id=w90-demo
print(total([1, 2, 3]))


# %% id=w90-counter role=exercise ex=w90.counter
class Counter:
    def __init__(self, start):
        self.value = start

    def next(self):
        ### BEGIN SOLUTION
        self.value += 1
        return self.value
        ### END SOLUTION


# %% id=w90-counter-check role=check ex=w90.counter
check("w90.counter", Counter)

# %% id=w90-guess role=exercise ex=w90.guess
### BEGIN SOLUTION
prediction = {"a": 3, "b": 2}
### STUB
# prediction = {"a": ..., "b": ...}
### END SOLUTION

# %% id=w90-guess-check role=check ex=w90.guess
check("w90.guess", prediction)


# %% id=w90-middle role=exercise ex=w90.middle
### BEGIN SOLUTION
def middle(values):
    return sorted(values)[len(values) // 2]


fault = "not sorted"
### STUB
# def middle(values):
#     return values[len(values) // 2]
#
#
# fault = ...
### END SOLUTION

# %% id=w90-middle-check role=check ex=w90.middle
check("w90.middle", middle, fault=fault)
