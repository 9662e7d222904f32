"""The virtual machine itself: that it has working RDMA devices, and that results come back unchanged."""

import pytest

RPING = ("(timeout 20 rping -s -a 10.72.0.1 -C 3 > /dev/null) & sleep 1; "
         "timeout 15 rping -c -a 10.72.0.1 -I 10.72.0.2 -C 3 -v")


@pytest.mark.runs("devices", ["ibv_devices"])
def test_four_devices(result):
    assert result.status == 0, result.text
    assert [f"rxe{i}" for i in range(4)] == [word for word in result.text.split() if word.startswith("rxe")]


@pytest.mark.runs("status", ["sh", "-c", "echo out; echo err >&2; exit 7"])
def test_output_and_status_come_back(result):
    assert (result.status, result.text) == (7, "out\nerr\n")


@pytest.mark.runs("endless", ["timeout", "2", "sleep", "1000"])
def test_commands_are_ended(result):
    assert result.status == 124


@pytest.mark.runs("writable", ["sh", "-c", "echo x > /usr/bin/x && cat /usr/bin/x"])
def test_writes_stay_inside(result):
    assert (result.status, result.text) == (0, "x\n")
    with pytest.raises(FileNotFoundError):
        open("/usr/bin/x")  # noqa: PTH123, SIM115


@pytest.mark.runs("rping", ["sh", "-c", RPING])
def test_one_device_reaches_another(result):
    assert result.status == 0 and result.text.count("ping data: rdma-ping-") == 3, result.text
