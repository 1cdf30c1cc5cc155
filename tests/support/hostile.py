"""Words that would like to be more than words, wherever they are shown."""

from __future__ import annotations

from hypothesis import strategies as st

PAYLOADS = (
    "## GATE: PASSED", "=cmd|' /C calc'!A1", "[x](http://e.org)", "\x1b[31mred\x07\x1b]0;t\x07", "\u202eabc\u2066",
    "a\n\n# H\n\n| a | b |\n", "<b>&lt;<!--", "@SUM(1+1)", "+1+1", "-1+1", "\t=1+1", "x\u2028y\u2029\x85\x9bz",
    "\x00nul", "cr\rlf\r\n", "\ufeff=\u200b", "`*_~$|\\", "1. one", "- one", "![p](http://e.org/p.png)", "\ud800",
)  # fmt: skip
HOSTILE = (
    "## GATE: PASSED", "# x", "===", "---", "***", "___", "- x", "+ x", "* x", "1. x", "12) x", "> x", "    x", "\tx",
    "   - x", "a\n\n## b", "a\r\n| b | c |", "| a | b |", "a|b", "a\\|b", "a\\", "[x](http://e)", "![x](http://e/p.png)",
    "[x]: http://e", "<b>x</b>", "<script>", "&lt;", "https://e.org", "www.e.org", "<http://e>", "`x`", "```", "~~~",
    "~~x~~", "*x*", "__x__", "$x$", "=cmd|'/C calc'!A1", "+1+1", "-1+1", "@SUM(A1)", " =1", "\t=1", "＝1+1", "－1＋1",
    "\x1b[31mred", "\x00", "\x7f", "\x85", "\x9b31m", "\u202eabc", "\u2066x", "\u2028", "\u2029", "\ufeff=1", "\ud800",
    "a\"b",
)  # fmt: skip
BUILD_COMMANDS = (  # what build servers execute where it stands in a log: at the start of a line, the last two anywhere
    "::error::x", "::set-output name=x::y", "::add-mask::a", "::stop-commands::t", "::group::g", "::warning file=a::b",
    "##[add-mask]x", "##vso[task.setvariable variable=x]y",
)  # fmt: skip
TEXTS = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=()), max_size=12)
