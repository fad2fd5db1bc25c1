"""Chinese aspect: where 了 and 过 stand in a verb phrase.

`|` in a phrase marks where both stand (吃|早饭: 吃了早饭), `/` where only 过 does (游/泳: 游泳了, 游过泳); without a mark both
follow the phrase. `=` at the end marks a state, which takes neither.
"""


def verb_form(phrase: str, form: str) -> str:
    """`phrase` plain (""), as "le" (past), "guo" (experience) or "done" (了 at the end: a question, or with 已经)."""
    state = phrase.endswith("=")
    phrase = phrase.removesuffix("=")
    bare = phrase.replace("|", "").replace("/", "")
    if form == "" or state:
        return bare
    if form == "done":
        return bare + "了"
    if form == "guo":
        marked = phrase.replace("/", "|", 1)
        return marked.replace("|", "过", 1) if "|" in marked else bare + "过"
    return phrase.replace("/", "").replace("|", "了", 1) if "|" in phrase else bare + "了"


def predicate(adjective: str) -> str:
    """The adjective as predicate of a plain statement: 很难. A `=` marks what takes no 很 (免费的)."""
    return (
        f"是{adjective.removesuffix('=')}"
        if adjective.endswith("的=")
        else (adjective.removesuffix("=") if adjective.endswith("=") else f"很{adjective}")
    )
