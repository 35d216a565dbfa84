"""`make lab` from outside: who is let in, and what is said when the port is taken."""

import pytest


def test_a_taken_port_is_named_with_another(lab):
    done = lab.labkit("lab", "--no-browser", "--port", str(lab.port))
    assert done.returncode == 2
    assert done.stderr.strip() == f"Port {lab.port} is taken. Choose another: make lab PORT={lab.port + 1}"


@pytest.mark.console("403", "the browser's own line for a refused request")
@pytest.mark.console("401", "and for a wrong token")
def test_without_the_token_nothing_is_served(lab, context, picture):
    page = context.new_page()
    page.goto(lab.url("/lab/tree/weeks/week00_start/01_start.ipynb", token=False))
    assert "/login" in page.url
    assert page.get_by_text("This address lacks its token").is_visible()
    assert page.get_by_text("Type make lab in the course folder once more").is_visible()
    picture(page, "without-token")
    for path in ("/api/contents/weeks", "/api/sessions", "/files/weeks/week00_start/01_start.ipynb"):
        reply = page.request.get(lab.url(path, token=False), max_redirects=0)
        assert reply.status in (302, 403), path
        assert "week00" not in reply.text() or reply.status == 302, path

    page.get_by_label("Password or token").fill("a guess")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("Invalid credentials").wait_for()
    page.get_by_label("Password or token").fill(lab.token)
    page.get_by_role("button", name="Log in").click()
    page.locator(".labkit-panel, .labkit-start, .jp-Notebook").first.wait_for()


def test_nothing_is_looked_for_with_npm(lab, context):
    """JupyterLab would run npm at each start to see whether it must be built anew; it never must."""
    page = context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/api/build" in request.url else None)
    page.goto(lab.url(lab.start_page))
    page.locator(".labkit-start-next").wait_for()
    page.evaluate("jupyterapp.restored")
    assert asked == []
    calls = lab.node_calls.read_text().splitlines() if lab.node_calls.exists() else []
    assert {
        call for call in calls if not call.endswith("yarn.js config --json")
    } == set()  # JupyterLab's import


def test_a_second_start_finds_the_first(lab):
    done = lab.labkit("lab", "--no-browser")
    assert done.returncode == 0, done.stderr
    assert f"JupyterLab is running already: http://127.0.0.1:{lab.port}/lab?token={lab.token}" in done.stdout
