"""ompi_info loads the plugin and shows its variables with what they take, and its counters."""

import re

from harness.programs import says

PARSABLE = ("--param", "btl", "weir", "--level", "9", "--parsable")


def test_the_interface_is_that_of_open_mpis_own_btls(ompi_info):
    own = re.search(r"MCA btl: self \((MCA v[0-9.]*, API v[0-9.]*),", ompi_info("--param", "btl", "self", "--level", "1"))
    says(ompi_info(), re.escape(f"MCA btl: weir ({own[1]}, Component v"))


def test_values_and_counters_are_shown(ompi_info):
    says(ompi_info(),
         r'"btl_weir_window_max" \(current value: "auto"',
         r'"btl_weir_rnr_timer" \(current value: "640us"',
         r'"btl_weir_buffer_size" \(current value: "8704B"',
         r'"btl_weir_exclusivity" \(current value: "2048"',
         r'"btl_weir_eager_limit" \(current value: "65[56][91][26]"',
         r"btl_weir_frames_sent",
         r"btl_weir_registration_misses")


def test_help_says_what_a_variable_takes(ompi_info):
    says(ompi_info(*PARSABLE),
         r"btl_weir_rnr_timer:help:.*auto or duration, 10us to",
         r"btl_weir_rnr_timer:help:.*default 640us: Credits",
         r"btl_weir_config:help:",
         *(f"btl_weir_{key}:value:" for key in ("profile", "window_shrink_after", "receive_memory_max")))


def test_a_value_has_an_effect_and_the_limits_follow(ompi_info):
    says(ompi_info(OMPI_MCA_btl_weir_eager_max="16KiB"),
         r'"btl_weir_eager_max" \(current value: "16KiB"',
         r'"btl_weir_eager_limit" \(current value: "164[46][04]"')


def test_a_wrong_value_is_shown_and_hides_nothing(ompi_info):
    says(ompi_info(OMPI_MCA_btl_weir_buffer_size="nonsense"),
         r'"btl_weir_buffer_size" \(current value: "nonsense"',
         r'"btl_weir_rnr_timer" \(current value: "640us"')
