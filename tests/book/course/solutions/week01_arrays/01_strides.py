# %% [markdown] id=f1-title
# # Strides
#
# In about ten minutes you will find an element by hand. Next: [models](../week02_models/01_linear.ipynb).

# %% id=f1-setup role=setup
import math


def check(ex, answer):
    print(ex, "passes")


# %% [markdown] id=f1-strides-md
# ## How far apart are neighbors?
#
# The last axis is dense, so its stride is 1.


# %% id=f1-strides role=exercise ex=f1.strides
def strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements: (2, 3, 4) -> (12, 4, 1)."""
    ### BEGIN SOLUTION
    out = []
    for axis in range(len(shape)):
        out.append(math.prod(shape[axis + 1 :]))
    return tuple(out)
    ### END SOLUTION


# %% id=f1-strides-check role=check ex=f1.strides points=2
check("f1.strides", strides)

# %% id=f1-demo
steps = strides((2, 3, 4))
print("steps", steps)
steps

# %% [markdown] id=f1-note role=instructor
# Ask the room for the strides of a transposed array first.

# %% [markdown] id=f1-predict-md
# ## Predict
#
# | expression | ? |
# |---|---|
# | `len(steps)` | a |

# %% id=f1-predict role=exercise ex=f1.predict
### BEGIN SOLUTION
prediction = {"a": 3}
### STUB
# prediction = {"a": ...}
### END SOLUTION

# %% id=f1-predict-check role=check ex=f1.predict
check("f1.predict", prediction)
