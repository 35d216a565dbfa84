"""The command line: what a person types, and what they are told when something is wrong."""

import socket
import subprocess
import sys

import pytest

from labkit import __main__ as command_line
from labkit import doctor, lab
from labkit.book.work import here


def test_import_is_cheap():
    """`import labkit` loads neither torch nor NumPy nor Numba."""
    code = (
        "import sys, labkit; print([m for m in ('torch', 'numpy', 'numba', 'IPython') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_name_that_is_not_there_is_an_attribute_error():
    import labkit

    with pytest.raises(AttributeError, match="no name 'softmacks'"):
        labkit.softmacks  # noqa: B018


def test_every_command_has_a_module_with_main():
    for name, (module, words) in command_line.COMMANDS.items():
        assert words, name
        assert callable(__import__(module, fromlist=["main"]).main), name


def test_usage_lists_every_command(capsys):
    assert command_line.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in command_line.COMMANDS)


def test_an_unknown_command_is_explained(capsys):
    assert command_line.main(["chekc"]) == 2
    assert "no command 'chekc'" in capsys.readouterr().err


def test_an_unknown_exercise_suggests_the_nearest_without_a_traceback(capsys):
    assert command_line.main(["hint", "w00.anwser"]) == 2
    said = "".join(capsys.readouterr())
    assert "Did you mean w00.answer?" in said and "Traceback" not in said


def test_a_broken_set_up_is_explained_before_any_command(monkeypatch, capsys):
    missing = doctor.Finding(False, "packages: torch==2.13.0 is missing", doctor.INSTALL)
    monkeypatch.setattr(doctor, "QUICK", (lambda: missing,))
    assert command_line.main(["check"]) == 2
    said = capsys.readouterr().err
    assert "[FAIL] packages: torch==2.13.0 is missing" in said and "make lab" in said


def test_no_permission_is_explained(monkeypatch, capsys):
    def refuse(argv):
        raise PermissionError(13, "Permission denied", "weeks/week00_start/01_start.ipynb")

    monkeypatch.setattr("labkit.grade.progress.hint.main", refuse)
    assert command_line.main(["hint"]) == 2
    assert "No permission: weeks/week00_start/01_start.ipynb" in capsys.readouterr().err


def test_the_doctor_finds_a_wrong_version(monkeypatch):
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["torch==0.0.1", "no-such-package>=1"])
    finding = doctor.packages()
    assert not finding.ok
    assert "no-such-package>=1 is missing" in finding.what and "torch==0.0.1 is wanted" in finding.what


def test_the_doctor_turns_any_trouble_into_a_finding():
    def look_at_the_moon():
        raise RuntimeError("clouds\nand more clouds")

    finding = doctor.examine(look_at_the_moon)
    assert str(finding).startswith("[FAIL] look at the moon: RuntimeError: clouds\n")


def test_the_doctor_says_what_to_do_where_nothing_can_be_written(monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    finding = doctor.write_access()
    assert not finding.ok and "writable" in finding.todo


def test_a_taken_port_is_refused_with_another_to_try(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert lab.main(["--port", str(port)]) == 2
    assert f"Port {port} is taken" in capsys.readouterr().err


def test_the_lab_serves_on_loopback_with_the_panel_and_a_layout_of_its_own():
    line = lab.command(8899, browser=False, work=here())
    assert "--ip=127.0.0.1" in line and "--no-browser" in line
    assert "--ServerApp.jpserver_extensions=labkit.panel=True" in line
    assert any(word.startswith("--LabApp.workspaces_dir=") and "progress" in word for word in line)


def test_the_token_is_not_where_other_users_see_it():
    """A command line is public on most systems, an environment is not."""
    assert lab.environment("secret", here())["JUPYTER_TOKEN"] == "secret"
    assert not any("token" in word.lower() for word in lab.command(8899, browser=False, work=here()))
