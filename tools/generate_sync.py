"""Generate the synchronous SDK from the source of the asynchronous one.

Each asynchronous class becomes a facade of the same methods, signatures and docstrings. A facade keeps the object that
it stands for, which lives on an event loop in a background thread, and runs its coroutines there. The rules:

- an `async def` runs on the loop, and the caller waits for its result;
- a property, and a public attribute that `__init__` declares, is a property that reads the object's;
- a plain method is called as it is, except those in `POSTED`, which are posted to the loop;
- an object of an asynchronous class that a method returns is wrapped in its facade, and unwrapped as an argument.
"""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["synchronous"]

#: Module and classes of each facade; several classes are merged, base classes first.
SOURCES: dict[str, tuple[tuple[str, str], ...]] = {
    "SyncMessage": (("messages.message", "Message"),),
    "SyncLease": (("leases", "Lease"),),
    "SyncInterruption": (("messages.work", "Interruption"),),
    "SyncWorking": (("messages.work", "Working"),),
    "SyncResuming": (("messages.work", "Resuming"),),
    "SyncAgent": (("agent", "Agent"), ("teamwork", "Teamwork"), ("operations", "Operations")),
}
#: Facades, and other types of synchronous code, by the type that they replace in annotations.
REPLACED = {classes[0][1]: facade for facade, classes in SOURCES.items()} | {
    "Acquiring": "SyncLease",
    "Connecting": "SyncAgent",
    "Bus": "SyncBus",
}
#: Methods that change an object without awaiting: they are posted to the loop.
POSTED = {("SyncMessage", "confirm"), ("SyncAgent", "on_state")}
#: Members that the base class in `tocsin.client.facade` has.
WRITTEN = {("SyncAgent", name) for name in ("inbox", "close", "__aenter__", "__aexit__")}
BASES = {"SyncAgent": "AgentFacade"}

_HEAD = '''"""The SDK for synchronous code; written by `make generate` from the asynchronous SDK, do not edit.

An agent runs on an event loop in a background thread; agents of a bus in the same process share the loop of the bus.
Any thread may call. Callbacks run on the loop's thread.
"""

# `type` is the name of a message's type, and of an agent's, on every interface.
# ruff: noqa: A002

{imports}
from tocsin.client.facade import AgentFacade, Facade, awaited
from tocsin.client.loop_thread import SyncBus

__all__ = [{names}]
'''


def synchronous(client: Path, texts: Mapping[str, str]) -> str:
    """Return the source of `tocsin.client.sync`; `texts` are modules that are newer than their files."""
    modules = sorted({module for classes in SOURCES.values() for module, _ in classes})
    sources = {
        name: texts.get(name) or (client / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
        for name in modules
    }
    trees = {name: ast.parse(text) for name, text in sources.items()}
    parts = []
    for facade, classes in SOURCES.items():
        members = [part for source, name in classes for part in _members(facade, trees[source], sources[source], name)]
        first = _class(trees[classes[0][0]], classes[0][1])
        base = BASES.get(facade) or f"Facade[{classes[0][1]}]"
        parts.append(f'class {facade}({base}):\n    """{ast.get_docstring(first)}"""\n\n' + "\n\n".join(members))
    head = _HEAD.format(imports="\n".join(_imports(trees)), names=", ".join(f'"{name}"' for name in sorted(SOURCES)))
    return head + "\n\n" + "\n\n\n".join(parts) + "\n"


def _imports(trees: Mapping[str, ast.Module]) -> Iterable[str]:
    """Return every import of the sources; the linter removes what is not used."""
    found = {f"from tocsin.client.{module} import {name}" for one in SOURCES.values() for module, name in one}
    for tree in trees.values():
        found |= {ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if not name.startswith("_"):
                    found.add(f"from tocsin.client.{module} import {name}")
    return sorted(found)


def _class(tree: ast.Module, name: str) -> ast.ClassDef:
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _members(facade: str, tree: ast.Module, text: str, name: str) -> Iterable[str]:
    for node in _class(tree, name).body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (facade, node.name) in WRITTEN:
            continue
        if node.name == "__init__":
            yield from _attributes(node, text.splitlines())
        elif node.name in ("__aenter__", "__aexit__") or not node.name.startswith("_"):
            yield _member(facade, node, text.splitlines())


def _attributes(init: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> Iterable[str]:
    """Return properties for the public attributes that `__init__` declares with a type and a comment."""
    for node in init.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            name, comment = node.target.attr, lines[node.lineno - 2].strip()
            if not name.startswith("_"):
                reply = _synchronous(node.annotation)
                value = _wrapped(node.annotation, f"self._wrapped.{name}")
                doc = comment.removeprefix("#: ")
                yield f'    @property\n    def {name}(self) -> {reply}:\n        """{doc}"""\n        return {value}'


def _member(facade: str, node: ast.FunctionDef | ast.AsyncFunctionDef, source: list[str]) -> str:
    decorators = [ast.unparse(one) for one in node.decorator_list]
    name = {"__aenter__": "__enter__", "__aexit__": "__exit__"}.get(node.name, node.name)
    reply = _synchronous(node.returns)
    lines = [f"    @{one}" for one in decorators]
    if "overload" in decorators:
        _, hash_, comment = source[node.lineno - 1].partition("  #")
        return "\n".join([*lines, f"    def {name}({hash_}{comment}", f"{_parameters(node.args)}) -> {reply}: ..."])
    lines.append(f"    def {name}({_parameters(node.args)}) -> {reply}:")
    if doc := ast.get_docstring(node, clean=False):
        lines.append(f'        """{doc.replace("`async with` or `await`", "`with`").replace("async with", "with")}"""')
    return "\n".join(lines + [f"        {line}" for line in _body(facade, node, decorators)])


def _body(facade: str, node: ast.FunctionDef | ast.AsyncFunctionDef, decorators: list[str]) -> list[str]:
    if "property" in decorators:
        return ["return " + _wrapped(node.returns, f"self._wrapped.{node.name}")]
    call = f"self._wrapped.{node.name}({_arguments(node.args)})"
    if "classmethod" in decorators:
        first = node.args.args[1].arg
        inner = f"{_own(facade)}.{node.name}({_arguments(node.args, first)})"
        return [f"return cls._connected({first}, lambda {first}: {inner})"]
    if (facade, node.name) in POSTED:
        return [f"self._background.soon(lambda: {call})"]
    if isinstance(node, ast.AsyncFunctionDef):
        call = f"self._background.run({call})"
        if node.name == "__aenter__" and _synchronous(node.returns).strip('"') == facade:
            return [call, "return self"]
    elif node.returns is not None and _name(node.returns) == "Acquiring":
        call = f"self._background.run(awaited({call}))"
    if isinstance(node.returns, ast.Constant) and node.returns.value is None:
        return [call]
    return ["return " + _wrapped(node.returns, call)]


def _own(facade: str) -> str:
    return SOURCES[facade][0][1]


def _name(annotation: ast.expr | None) -> str:
    """Return an annotation as it is in the source, without quotes."""
    if annotation is None:
        return "None"
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation)


def _synchronous(annotation: ast.expr | None) -> str:
    """Return an annotation with the types of synchronous code."""
    tree = ast.parse(_name(annotation), mode="eval")
    replaced = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in REPLACED:
            node.id, replaced = REPLACED[node.id], True
    text = ast.unparse(tree)
    return f'"{text}"' if replaced else text


def _wrapped(annotation: ast.expr | None, value: str) -> str:
    """Return an expression whose asynchronous object, if it is one, is wrapped in its facade."""
    name, _, optional = _name(annotation).partition(" | ")
    facade = REPLACED.get(name)
    if facade is None:
        return value
    return f"{facade}{'.optional' if optional else ''}(self._background, {value})"


def _parameters(arguments: ast.arguments) -> str:
    copied = ast.parse(f"def f({ast.unparse(arguments)}): ...").body[0]
    if not isinstance(copied, ast.FunctionDef):
        raise TypeError("not a function")
    found = [*copied.args.posonlyargs, *copied.args.args, *copied.args.kwonlyargs]
    found += [one for one in (copied.args.vararg, copied.args.kwarg) if one is not None]
    for one in found:
        if one.annotation is not None:
            one.annotation = ast.parse(_synchronous(one.annotation), mode="eval").body
    return ast.unparse(copied.args)


def _arguments(arguments: ast.arguments, first: str = "self") -> str:
    passed = []
    for one in arguments.args:
        if one.arg == first or one.arg not in ("self", "cls"):
            passed.append(_passed(one))
    if first == "self":
        passed = passed[1:]
    if arguments.vararg is not None:
        passed.append(f"*{arguments.vararg.arg}")
    passed += [f"{one.arg}={_passed(one)}" for one in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        passed.append(f"**{arguments.kwarg.arg}")
    return ", ".join(passed)


def _passed(argument: ast.arg) -> str:
    unwrapped = REPLACED.get(_name(argument.annotation)) in SOURCES
    return f"{argument.arg}._wrapped" if unwrapped else argument.arg
