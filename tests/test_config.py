"""Settings: three sources, one typed value, loud about mistakes."""

from pathlib import Path

import pytest

from app.config import BadSettings, load_from_environment, load_settings


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    settings = load_settings({}, {"data": tmp_path})
    assert (settings.host, settings.port, settings.data) == ("127.0.0.1", 8787, tmp_path)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "nightdesk.toml").write_text('port = 1\nhost = "10.0.0.1"\ndrain = 3\n')
    settings = load_settings(
        {"NIGHTDESK_PORT": "2", "NIGHTDESK_HOST": "10.0.0.2"}, {"data": tmp_path, "port": 3}
    )
    assert (settings.port, settings.host, settings.drain) == (3, "10.0.0.2", 3.0)


def test_lists_come_from_toml_or_from_commas(tmp_path: Path) -> None:
    (tmp_path / "nightdesk.toml").write_text('allowed_hosts = ["nas.example", "desk.example"]\n')
    assert load_settings({}, {"data": tmp_path}).allowed_hosts == ("nas.example", "desk.example")
    found = load_settings({"NIGHTDESK_ALLOWED_HOSTS": "a.example, b.example"}, {"data": tmp_path})
    assert found.allowed_hosts == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"NIGHTDESK_PROT": "8787"}, "NIGHTDESK_PROT"),
        ({"NIGHTDESK_PORT": "many"}, "port"),
        ({"NIGHTDESK_SINGLE_USER": "perhaps"}, "single_user"),
        ({"NIGHTDESK_PORT": "70000"}, "port"),
        ({"NIGHTDESK_DRAIN": "-1"}, "drain"),
        ({"NIGHTDESK_LOG_LEVEL": "loud"}, "log_level"),
        ({"NIGHTDESK_ROOT_PATH": "chat"}, "root path"),
    ],
)
def test_a_bad_variable_stops_the_start_and_is_named(
    tmp_path: Path, environ: dict[str, str], named: str
) -> None:
    with pytest.raises(BadSettings, match=named):
        load_settings(environ, {"data": tmp_path})


@pytest.mark.parametrize("text", ["prot = 1", "port = [", "data = '/elsewhere'"])
def test_a_bad_file_stops_the_start_and_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "nightdesk.toml").write_text(text)
    with pytest.raises(BadSettings, match=r"nightdesk\.toml"):
        load_settings({}, {"data": tmp_path})


def test_single_user_refuses_an_address_that_others_can_reach(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="loopback"):
        load_settings({}, {"data": tmp_path, "single_user": True, "host": "0.0.0.0"})


def test_the_local_model_is_left_out_by_either_name(tmp_path: Path) -> None:
    assert not load_settings({"NIGHTDESK_NO_LOCAL_MODEL": "1"}, {"data": tmp_path}).local_model
    assert not load_settings({"NIGHTDESK_LOCAL_MODEL": "false"}, {"data": tmp_path}).local_model


def test_no_secret_shows_in_the_printed_form(tmp_path: Path) -> None:
    settings = load_settings({"NIGHTDESK_SECRET_KEY": "canary"}, {"data": tmp_path})
    keys = load_from_environment({"OPENAI_API_KEY": "canary", "ANTHROPIC_API_KEY": "canary"})
    assert "canary" not in repr(settings) + repr(keys)
