"""What users call: every name is declared beside its gradient, and an editor finds it."""

import re
import subprocess
import sys
from pathlib import Path

import jedi
import numpy as np
import pytest

import labkit
from labkit import stubs
from labkit.op_table import OPS, PUBLIC, check_all_are_offered, publish

ROOT = Path(labkit.__file__).parents[1]
IN_PLACE = [name for name, public in PUBLIC.items() if public.in_place]


def test_names_are_where_their_decorators_say():
    for name, public in PUBLIC.items():
        for called in (name, *public.aliases):
            assert (getattr(labkit, called, None) is public.call) == public.function, called
            assert (getattr(labkit.Tensor, called, None) is public.call) == public.method, called
        assert hasattr(labkit.nn.functional, name) == bool(public.functional), name
        assert hasattr(labkit.Tensor, f"{name}_") == public.in_place or name in ("bernoulli", "normal"), name


ARGUMENTS = {  # of the in-place forms that need some
    **dict.fromkeys("add sub mul div pow remainder".split(), (2.0,)),
    **dict.fromkeys(("addcmul", "addcdiv"), (labkit.ones(2, 2), labkit.full((2, 2), 2.0))),
    "addmm": (labkit.ones(2, 2), labkit.ones(2, 2)),
    "clamp": (0.3, 0.6),
    "lerp": (labkit.ones(2, 2), 0.25),
    "masked_fill": (labkit.tensor([[True, False], [False, True]]), 7.0),
    "index_add": (0, labkit.tensor([1]), labkit.ones(1, 2)),
    "index_put": ((labkit.tensor([0]),), labkit.tensor(3.0)),
    **dict.fromkeys(("scatter", "scatter_add"), (0, labkit.tensor([[1, 0]]), labkit.ones(1, 2))),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_the_in_place_form_overwrites_with_the_same_value(name):
    x = labkit.tensor([[0.1, 0.5], [0.7, 0.9]])
    expected = getattr(x, name)(*ARGUMENTS.get(name, ()))
    memory = x.data
    assert getattr(x, f"{name}_")(*ARGUMENTS.get(name, ())) is x
    assert x.data is memory
    np.testing.assert_array_equal(x.data, expected.data)


def test_exp2_in_all_its_forms():
    x = labkit.tensor([0.0, 1.0, -2.0, 10.0], requires_grad=True)
    y = labkit.exp2(x)
    assert y.tolist() == x.exp2().tolist() == x.detach().exp2_().tolist() == [1, 2, 0.25, 1024]
    y.sum().backward()
    np.testing.assert_allclose(x.grad.data, y.data * np.log(2), rtol=1e-6)


def test_an_op_that_is_offered_nowhere_is_named_with_its_file(monkeypatch):
    def exp3(k, x): ...

    exp3.__module__ = "labkit.ops.elementwise"
    monkeypatch.setitem(OPS, "exp3", exp3)
    with pytest.raises(TypeError, match=r"labkit/ops/elementwise\.py: the op exp3 is offered nowhere.*@op\("):
        check_all_are_offered()
    exp3.__name__ = "_exp3"  # a part of another function
    check_all_are_offered()


def test_two_functions_of_one_name_are_named_with_their_files():
    def softmax(): ...

    softmax.__module__ = "labkit.ops.activation"
    with pytest.raises(TypeError, match=r"softmax: in labkit/ops/reduce\.py and labkit/ops/activation\.py"):
        publish(softmax, method=True)


def test_a_missing_kernel_is_named_with_the_file_where_it_belongs(monkeypatch):
    numpy, cuda = labkit.backends.get("numpy"), labkit.backends.get("cuda")
    with pytest.raises(AttributeError, match=r"no kernel 'layer_norm_backward'.*labkit/kernels/numpy"):
        numpy.layer_norm_backward  # noqa: B018
    with pytest.raises(AttributeError, match=r"no kernel 'linear2'.*labkit/kernels/numpy/<family>\.py"):
        numpy.linear2  # noqa: B018
    from labkit.kernels.numpy import KERNELS

    monkeypatch.setitem(KERNELS, "elementwise", KERNELS["elementwise"] | {"exp3"})
    with pytest.raises(
        AttributeError, match=r"cuda has no kernel 'exp3'.*labkit/kernels/cuda/elementwise\.py"
    ):
        cuda.exp3  # noqa: B018


def test_a_name_that_labkit_does_not_have_suggests_the_nearest():
    with pytest.raises(AttributeError, match=r"labkit has no name 'sofmax'\. Did you mean 'softmax'\?"):
        labkit.sofmax  # noqa: B018
    assert not hasattr(labkit, "gelu"), "as in torch, it is in nn.functional only"


# ---- editors ----


def test_the_stubs_are_up_to_date():
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "stubs", "--check"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def test_a_stub_that_is_not_up_to_date_is_named(monkeypatch, tmp_path, capsys):
    path = tmp_path / "reduce.pyi"
    monkeypatch.setattr(stubs, "texts", lambda: {path: "def softmax(x): ...\n"})
    assert stubs.main(["--check"]) == 1 and "reduce.pyi is not up to date" in capsys.readouterr().err
    assert stubs.main([]) == 0 and stubs.main(["--check"]) == 0


def script(code: str) -> jedi.Script:
    """What an editor sees, with the cursor at the end of the code"""
    return jedi.Script(code, project=jedi.Project(str(ROOT), sys_path=[str(ROOT), *sys.path]))


def definition(code: str) -> tuple[str, str]:
    """Go to the definition of the last word: the file in labkit, and the line there."""
    (found,) = script(code).goto(follow_imports=True)
    text = Path(found.module_path).read_text().splitlines()[found.line - 1]
    return str(Path(found.module_path).relative_to(ROOT)), text


@pytest.mark.parametrize(
    ("code", "file", "line"),
    [
        ("labkit.softmax", "labkit/ops/reduce.py", r"def softmax\(k, x"),
        ("labkit.Tensor().softmax", "labkit/ops/reduce.py", r"def softmax\(k, x"),
        ("x = labkit.tensor([1.0])\nx.softmax", "labkit/ops/reduce.py", r"def softmax\(k, x"),
        ("labkit.zeros(3).exp2_", "labkit/ops/elementwise.py", r"def exp2\(k, x"),
        ("labkit.zeros(3).exp().reshape", "labkit/ops/shape.py", r"def reshape\(input"),
        ("labkit.swapaxes", "labkit/ops/shape.py", r"def transpose\(input"),
        ("labkit.nn.functional.layer_norm", "labkit/ops/norm.py", r"def layer_norm\(input"),
        ("import labkit.nn.functional as F\nF.gelu", "labkit/ops/activation.py", r"def gelu\(k, x"),
        ("labkit.zeros", "labkit/creation.py", r"def zeros\("),
        ("labkit.Tensor().uniform_", "labkit/creation.py", r"def uniform_\("),
        ("labkit.check", "labkit/grade/.*check.py", r"def check\("),
    ],
)
def test_go_to_definition(code, file, line):
    found, text = definition(f"import labkit\n{code}")
    assert re.fullmatch(file, found) and re.match(line, text), (found, text)


def test_an_editor_shows_signature_and_first_line():
    (found,) = script("import labkit\nlabkit.Tensor().softmax").infer()
    assert found.get_signatures()[0].to_string() == "softmax(dim=None, dtype=None) -> Tensor"
    (stub,) = script("import labkit\nlabkit.softmax").goto(follow_imports=True, prefer_stubs=True)
    assert stub.get_signatures()[0].to_string() == "softmax(x, dim=None, dtype=None) -> Tensor"
    assert "e^x / sum(e^x) along `dim`" in stub.docstring()


def test_an_editor_completes_methods():
    names = {c.name for c in script("import labkit\nlabkit.Tensor().soft").complete()}
    assert names == {"softmax"}
