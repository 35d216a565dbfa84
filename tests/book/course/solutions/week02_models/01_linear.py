# %% [markdown] id=f2-title
# # A linear model — `y = w·x + b`
#
# See the [shared data](../../datasets/points.txt).

# %% id=f2-setup role=setup
def check(ex, answer):
    print(ex, "passes")


# %% id=f2-line role=exercise ex=f2.line
def dot(a: list[float], b: list[float]) -> float:
    ### BEGIN SOLUTION
    return sum(x * y for x, y in zip(a, b, strict=True))
    ### END SOLUTION


def line(w: list[float], x: list[float], b: float) -> float:
    """w . x + b"""
    ### BEGIN SOLUTION
    return dot(w, x) + b
    ### END SOLUTION


# %% id=f2-line-check role=check ex=f2.line
check("f2.line", line)

# %% id=f2-demo tags=nbval-ignore-output
print(line([1, 2], [3, 4], 5))


# %% id=f2-model role=exercise ex=f2.model
class Model:
    """Holds w and b; calling it gives `line(w, x, b)`."""

    def __init__(self, w: list[float], b: float):
        self.w, self.b = w, b

    def __call__(self, x: list[float]) -> float:
        ### BEGIN SOLUTION
        return line(self.w, x, self.b)
        ### END SOLUTION


# %% id=f2-model-check role=check ex=f2.model
check("f2.model", Model)

# %% id=f2-secret role=instructor
print("only for the room")
