"""Destination templates: what becomes of a topic, and what is refused before there is any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.wire.topicnames import matches
from bridgehead.wire.topictemplate import Destination, Levels, read_template

TOPIC = "site/cell/department/machine"
NAMES = {"bridge.name": "test-bridge", "node": "plant-7"}
VARIABLES = {"EnvTest": "EnvValue", "EMPTY": "", "LEVELS": "a/b", "BRACES": "{1}"}


def mapped(text: str, topic: str = TOPIC) -> str:
    return read_template(text, NAMES, VARIABLES).topic(topic)


ROWS = [
    ("replacement/of/level", "replacement/of/level"),
    ("prefix/{2}/NEU/{4}/allData/{3}", "prefix/cell/NEU/machine/allData/department"),
    (
        "prefix/{2-3}/NEU/{1-2}/{4-4}/allData/{1-4}",
        "prefix/cell/department/NEU/site/cell/machine/allData/site/cell/department/machine",
    ),
    (
        "prefix/{#}/NEU/{#}/allData/",
        "prefix/site/cell/department/machine/NEU/site/cell/department/machine/allData/",
    ),
    (
        "prefix/{2-#}/NEU/{4-#}/allData/{1-#}",
        "prefix/cell/department/machine/NEU/machine/allData/site/cell/department/machine",
    ),
    ("replacement/${bridge.name}/of/level", "replacement/test-bridge/of/level"),
    ("replacement/$\\{bridge.name}/of/level", "replacement/${bridge.name}/of/level"),
    ("replacement/\\{2}/of/level", "replacement/{2}/of/level"),
    ("replacement/$ENV\\{2}/of/level", "replacement/$ENV{2}/of/level"),
    ("prefix/$ENV{EnvTest}/NEU/", "prefix/EnvValue/NEU/"),
    ("prefix/$ENV{nothing}/NEU/$ENV{notThere}/allData/", "prefix/NEU/allData/"),
    ("prefix/${nothing}/NEU/${notThere}/allData/", "prefix/NEU/allData/"),
    ("prefix/{5-#}/NEU/{6-#}/allData/{7-#}", "prefix/NEU/allData"),
    ("prefix/{3-2}/NEU/{2-1}/{4-1}/allData", "prefix/NEU/allData"),
    ("prefix/{5-6}/NEU/{6-7}/{7-10}/allData", "prefix/NEU/allData"),
    (
        "prefix/{2-6}/NEU/{1-7}/allData/{4-10}",
        "prefix/cell/department/machine/NEU/site/cell/department/machine/allData/machine",
    ),
    ("prefix/{5}/NEU/{6}/allData/{7}", "prefix/NEU/allData"),
]


@pytest.mark.parametrize(("template", "topic"), ROWS)
def test_the_rows_that_other_bridges_agree_on(template: str, topic: str) -> None:
    assert mapped(template) == topic


@pytest.mark.parametrize(
    ("template", "topic"),
    [
        ("pre{2}post", "precellpost"),
        ("{1}-{2}/{1}{1}", "site-cell/sitesite"),
        ("a/x{9}y/b", "a/b"),
        ("${bridge.name}-{1}.${node}/{2}", "test-bridge-site.plant-7/cell"),
        ("pre$ENV{LEVELS}post", "prea/bpost"),
        ("$ENV{EMPTY}/a", "a"),
        ("$ENV{BRACES}", "{1}"),
        ("a}b/{1}", "a}b/site"),
        ("\\\\{1}", "\\{1}"),
        ("/{1}/", "/site/"),
    ],
)
def test_text_beside_a_level_is_kept_and_a_level_without_a_value_is_left_out(template: str, topic: str) -> None:
    assert mapped(template) == topic


def test_a_leading_slash_makes_the_first_level_an_empty_one() -> None:
    assert mapped("x/{1}/y/{2}", "/a") == "x//y/a"
    assert mapped("{1}", "/a") == ""


def test_nothing_is_left_of_a_topic_that_has_none_of_the_levels() -> None:
    assert mapped("{5}/{6-#}") == ""


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        *((text, "none of {#}") for text in ("{0}", "{1a}", "{x-2}", "{x}", "{}", "{1-0}", "{0-1}", "{-1}", "{1-}", "{01}")),
        *((text, "none of {#}") for text in ("{+}", "{+0}", "{+1-2}")),
        *((text, "only placeholder") for text in ("{#}{#}", "{1}{2-#}", "a{#}b{+1}")),
        *((text, "wildcards") for text in ("a/+", "#", "a/#/b", "a+b", "x#")),
        *((text, "never closed") for text in ("{", "a/{1", "{1/2}")),
        *((text, "no topic") for text in ("{3-2}", "$ENV{unset}", "${unknown}/{2-1}")),
        ("a/\0", "NUL"),
        ("a/\ud800", "Unicode"),
    ],
)  # fmt: skip
def test_what_can_never_work_is_refused_with_its_reason(template: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("{", "\\{")):
        read_template(template)


@pytest.mark.parametrize("value", ["a/+", "#", "\udc80"])
def test_a_name_that_stands_for_no_part_of_a_topic_is_refused(value: str) -> None:
    for template in ("a/$ENV{V}", "a/${V}x"):
        with pytest.raises(ValueError, match="V"):
            read_template(template, {"V": value}, {"V": value})


def test_names_without_a_value_are_told() -> None:
    template = read_template("a/${nothing}/$ENV{notThere}/${node}", NAMES, VARIABLES)
    assert template.missing == ("${nothing}", "$ENV{notThere}")


CAPTURES = [
    (["plant/+/line/+/#"], "{+2}/{+1}/{+#}", "plant/7/line/b/x/y", "b/7/x/y"),
    (["plant/+/line/+/#"], "{+2}/{+1}/{+#}", "plant/7/line/b", "b/7"),
    (["plant/+/line/+/#"], "a{+2}-{+1}b", "plant/7/line/b", "ab-7b"),
    (["x/+", "+/+"], "{+1}/{+2}", "x/y", "y"),
    (["+/+", "x/+"], "{+1}/{+2}", "x/y", "x/y"),
    (["$share/group/+/b"], "{+1}", "a/b", "a"),
    (["#"], "up/{+#}", "a/b", "up/a/b"),
    (["a/b"], "up/{+1}/{+#}", "a/b", "up"),
    (["other/+"], "up/{+1}/{1}", "made/up", "up/made"),
]


@pytest.mark.parametrize(("filters", "template", "topic", "becomes"), CAPTURES)
def test_wildcards_are_those_of_the_first_filter_that_selects_the_topic(
    filters: list[str], template: str, topic: str, becomes: str
) -> None:
    assert Destination(read_template(template), filters).topic(topic) == becomes


LITERAL = st.text("ab}$\\é.", min_size=1, max_size=3)
PIECE = st.one_of(
    LITERAL,
    st.sampled_from(["{1}", "{2}", "{+1}", "\\{", "$ENV{BRACES}", "${client.id}", "$ENV{LEVELS}", "${no}", "$\\{node}"]),
)
LEVEL = st.one_of(st.sampled_from(["{#}", "{2-#}", "{1-2}", "{+#}", "{2-1}", ""]), st.lists(PIECE, max_size=3).map("".join))
TEXT = st.lists(LEVEL, min_size=1, max_size=4).map("/".join)
TOPICS = st.lists(st.sampled_from(["a", "", "b"]), min_size=1, max_size=3).map("/".join).filter(bool)


@given(TEXT, TOPICS)
def test_a_template_that_is_filled_in_is_read_as_the_same_one_without_names_and_variables(text: str, topic: str) -> None:
    try:
        template = read_template("x/" + text, NAMES, VARIABLES)
    except ValueError:
        return  # a backslash before a placeholder, a brace that is not closed
    again = read_template(str(template))
    for one in ("+/#", "a/+", "nothing"):
        assert Destination(again, [one]).topic(topic) == Destination(template, [one]).topic(topic)
    assert again.parts == template.parts


@given(TEXT, TOPICS)
def test_whatever_comes_out_is_within_the_reach_of_the_template(text: str, topic: str) -> None:
    try:
        template = read_template("x/" + text, NAMES, VARIABLES)
    except ValueError:
        return
    assert matches(template.reach, Destination(template, ["+/#"]).topic(topic))


@pytest.mark.parametrize(
    ("text", "reach"), [("a/b", "a/b"), ("a/{#}", "a/#"), ("a/x{1}/b", "a/#"), ("{1}/a", "#"), ("a/\\{1}/{2}", "a/{1}/#")]
)
def test_the_reach_is_the_text_that_comes_first(text: str, reach: str) -> None:
    assert read_template(text).reach == reach


def test_only_text_and_whole_topics_need_no_look_at_the_topic() -> None:
    assert read_template("a/{#}/b/{#}").parts == ["a/", None, "/b/", None, ""]
    assert read_template("a/b").parts == ["a/b"]
    assert read_template("a/{1}").parts is None
    assert Levels(1, None) == read_template("{1-#}").levels[0][0], "{1-#} is the whole topic, too"


@pytest.mark.parametrize(
    ("template", "same", "left_out"),
    [
        ("x/a{#}b/y", "x/{#}/y", ("'a' beside {#}", "'b' beside {#}")),
        ("a{2-3}", "{2-3}", ("'a' beside {2-3}",)),
        ("{2-#}b", "{2-#}", ("'b' beside {2-#}",)),
        ("${node}{+#}", "{+#}", ("'plant-7' beside {+#}",)),
    ],
)
def test_text_beside_what_stands_alone_is_left_out_and_told(template: str, same: str, left_out: tuple[str, ...]) -> None:
    read = read_template(template, NAMES)
    assert str(read) == same
    assert read.left_out == left_out
