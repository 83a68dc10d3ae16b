"""Names, units and coordinates of modes."""

import numpy as np
import pytest

from tensormargin.data import Axis, axes_of, checked_axes, mode_number, parsed_axes
from tensormargin.io import SampleSet


class TestOneLineOfText:
    def test_describes_names_units_and_coordinates(self):
        channel, time, band = parsed_axes("channel=Fz|Cz, time[ms]=-200:4, band", (2, 3, 5))
        assert channel == Axis("channel", "", ["Fz", "Cz"])
        assert time == Axis("time", "ms", [-200.0, -196.0, -192.0])
        assert band == Axis("band")

    def test_of_empty_names_says_nothing(self):
        assert parsed_axes(",", (2, 3)) is None

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("channel", "one by one; got 1"),
            ("channel=Fz|Cz|Pz,time", "got 3 for 2 indices"),
            ("channel,time[ms", "name or name\\[unit\\]"),
            ("channel,time=0:x", "start:step in numbers"),
        ],
    )
    def test_that_does_not_fit_is_refused(self, text, message):
        with pytest.raises(ValueError, match=message):
            parsed_axes(text, (2, 3))

    def test_gives_no_coordinates_where_samples_differ_in_length(self):
        with pytest.raises(ValueError, match="differ in its length"):
            parsed_axes("channel,time=0:1", (2, None))


class TestAxes:
    def test_from_names_and_values_equal_those_from_text(self):
        given = axes_of((2, 3), ["channel", "time[ms]"], {"time": [0, 4, 8], "channel": ["a", "b"]})
        assert given == parsed_axes("channel=a|b,time[ms]=0:4", (2, 3))

    def test_are_checked_against_the_samples(self):
        with pytest.raises(ValueError, match="one axis per mode; got 1"):
            checked_axes([Axis("time")], (2, 3))
        with pytest.raises(ValueError, match="must be finite"):
            Axis("time", "s", [0.0, np.nan])
        with pytest.raises(ValueError, match="one number or text per index"):
            Axis("time", "s", [[0.0]])
        with pytest.raises(ValueError, match="given for modes in mode_names"):
            axes_of((2,), ["a"], {"b": [1, 2]})

    def test_of_a_sample_set_fit_its_samples(self):
        with pytest.raises(ValueError, match="got 3 for 2 indices"):
            SampleSet(np.ones((4, 2)), None, None, None, None, "", "", (), axes=(Axis("a", "", [1, 2, 3]),))

    def test_say_an_index_in_words(self):
        assert Axis("time", "ms", [0, 4.5]).spoken(1) == "4.5 ms"
        assert Axis("time", "ms", [-0.0]).spoken(0) == "0 ms"
        times = np.arange(128) / 128 - 0.2
        assert [Axis("time", "s", scale * times).spoken(75) for scale in (1, 100)] == ["386 ms", "38.6 s"]
        bands = np.array([10.25, 10.75, 14.0])
        assert [Axis("frequency", "Hz", bands).spoken(place) for place in range(3)] == ["10.2 Hz", "10.8 Hz", "14 Hz"]
        assert Axis("wavelength", "nm", np.arange(3) * 0.25 + 400).spoken(1) == "400.25 nm"
        assert Axis("channel", "", ["Fz", "Cz"]).spoken(1) == Axis("channel", "uV", ["Fz", "Cz"]).spoken(1) == "Cz"
        assert Axis().spoken(1) == "2"

    def test_give_modes_by_name(self):
        axes = axes_of((2, 3), ["channel", "time[ms]"])
        assert mode_number("time", axes, 2) == mode_number(-1, axes, 2) == 1
        with pytest.raises(ValueError, match=r"the modes are \['channel', 'time'\]"):
            mode_number("frequency", axes, 2)
        with pytest.raises(ValueError, match="have no names"):
            mode_number("time", None, 2)
