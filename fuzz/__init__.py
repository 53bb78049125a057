"""Malformed and hostile input: `python -m fuzz` searches for bytes and requests that break a region.

    values        arguments that programs trip over
    sentences     requests from the syntax of each command, and how they are spoilt
    target        what is searched: a test of hypothesis
    parsing       a target: the parser of requests
    commanding    a target: every command with its arguments, on a region without a node, as a state machine
    engine        tries inputs that hypothesis draws from a seed: the same ones in every run
    guided        tries inputs that reach new code, with atheris, where that is installed

A target raises when a property does not hold:

- whatever bytes arrive, and however they are split, the parser gives the same requests or refuses them;
- whatever a request says, the region replies: with a whole reply, never with a traceback;
- a request that is answered by an error has changed nothing, neither replicated nor local;
- the structures pass their `check()`, and another replica that applies the effects has the same digest.

An input that fails is made as small as possible, printed and stored, and `python -m fuzz TARGET --replay FILE` runs it
again. New commands are tried as soon as they are in the table.
"""
