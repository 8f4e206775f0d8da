"""Tests of the Python package, run by python.sh in a folder with model.gguf."""

import asyncio
import ctypes
import gc
import os
import re
import reprlib
import subprocess
import sys
import threading
import time
import unittest
import weakref
from pathlib import Path
from unittest import mock

import runnel
from runnel import _names
from runnel import _native as native
from runnel.settings import ENGINE_OPTIONS
from runnel.stream import PAUSE_AT

ROOT = Path(os.environ["ROOT"])
STRUCTS = [kind for kind in vars(native).values()
           if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind.__module__ == native.__name__]


def c_name(kind):
    """The header's name of a struct: EngineInfo is rn_engine_info."""
    return "rn" + re.sub("[A-Z]", lambda match: "_" + match.group().lower(), kind.__name__)


class Layout(unittest.TestCase):
    def test_structs_are_those_of_the_header(self):
        lines, wanted = [], []
        for kind in STRUCTS:
            name = c_name(kind)
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            wanted.append(f"{name} {ctypes.sizeof(kind)}")
            for member, _ in kind._fields_:
                field = getattr(kind, member)
                lines.append(f'printf("{name}.{member} %zu %zu\\n", offsetof({name}, {member}), '
                             f"sizeof((({name} *)0)->{member}));")
                wanted.append(f"{name}.{member} {field.offset} {field.size}")
        constants = {name: value for name, value in vars(native).items() if name.startswith("RN_")}
        constants.update({"RN_TOKENIZE_GUARDED": native.TOKENIZE_GUARDED,
                          "RN_SHAPE_STRUCTURE": native.SHAPES.index("structure"), "RN_FINISH_ERROR": 4,
                          "RN_ERR_AMBIGUOUS": len(runnel.errors.STATUSES) - 1})
        self.assertEqual(native.lib.status_text(len(runnel.errors.STATUSES)), native.lib.status_text(10**6))
        for name, value in constants.items():
            lines.append(f'printf("{name} %d\\n", (int){name});')
            wanted.append(f"{name} {value}")
        Path("layout.c").write_text("#include <stdio.h>\n#include <runnel.h>\nint main(void) {" + "\n".join(lines) + "}\n")
        subprocess.run([os.environ.get("CC", "cc"), f"-I{ROOT}/include", "layout.c", "-o", "layout"], check=True)
        got = subprocess.run(["./layout"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        self.assertGreater(len(STRUCTS), 12)
        self.assertEqual(wanted, got)

    def test_members_are_all_there(self):
        header = re.sub("//.*", "", (ROOT / "include/runnel.h").read_text())
        for kind in STRUCTS:
            body = re.search(r"typedef struct %s {(.*?)\n}" % c_name(kind), header, re.S)
            if body:  # rn_error is elsewhere
                count = sum(1 + part.count(",") if "(*" not in part else 1 for part in body.group(1).split(";")[:-1])
                self.assertEqual(count, len(kind._fields_), c_name(kind))


class Documentation(unittest.TestCase):
    def test_every_block_runs(self):
        page = (ROOT / "docs/PYTHON.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
        self.assertGreater(len(blocks), 10)
        scope = {"__name__": "page"}
        for number, block in enumerate(blocks):
            exec(compile(block, f"PYTHON.md, block {number}", "exec"), scope)

    def test_every_setting_is_on_the_page(self):
        page = (ROOT / "docs/PYTHON.md").read_text()
        for name in runnel.Settings.__annotations__:
            self.assertTrue(f"`{name}`" in page or name.startswith(("dry_", "xtc_")), name)

    def test_public_names_have_docstrings(self):
        for name in runnel.__all__:
            item = getattr(runnel, name)
            if isinstance(item, type):
                self.assertTrue(item.__doc__, name)


class WithEngine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = runnel.Model("model.gguf")
        cls.engine = runnel.Engine(cls.model, max_seqs=4, n_ctx=256)

    @classmethod
    def tearDownClass(cls):
        cls.engine.close()
        cls.model.close()

    def wait_for(self, condition):
        for _ in range(1000):
            if condition():
                return
            time.sleep(0.01)
        self.fail("it does not happen")


class Texts(WithEngine):
    def test_pieces_events_and_result_agree(self):
        settings = {"max_tokens": 30, "seed": 7}
        result = self.engine.complete("Once upon a time", **settings)
        pieces = list(self.engine.generate("Once upon a time", **settings))
        events = list(self.engine.generate("Once upon a time", **settings).events())
        self.assertEqual(result.text, "".join(pieces))
        self.assertEqual(result.tokens, [event.token for event in events if event.token is not None])
        self.assertEqual(len(result.tokens), result.timings.output_tokens)
        self.assertEqual([event.finish for event in events if event.finish], [result.finish])
        self.assertEqual(result.seed, 7)
        ids = self.model.tokenize("Once upon a time", bos=True)
        self.assertEqual(self.engine.complete(ids, **settings).text, result.text)

    def test_settings_reach_the_library(self):
        tokens = self.model.tokenize(" fox")
        biased = self.engine.complete("The", max_tokens=3, logit_bias={tokens[0]: 100})
        self.assertEqual(biased.tokens, tokens * 3)
        stopped = self.engine.complete("The", max_tokens=9, logit_bias={tokens[0]: 100}, stop="fox fox")
        self.assertEqual((stopped.text, stopped.stop, stopped.finish), (" ", "fox fox", "stop"))
        by_token = self.engine.complete("The", max_tokens=9, greedy=True, stop_tokens=tokens, logit_bias={tokens[0]: 100})
        self.assertEqual((by_token.stop_token, by_token.text), (tokens[0], ""))
        greedy = [self.engine.complete("The", max_tokens=9, greedy=True).text for _ in range(2)]
        self.assertEqual(greedy[0], greedy[1])
        every = self.engine.generate("The fox", max_tokens=1, logprobs=-1, prompt_logprobs=-1)
        every.result()
        self.assertEqual(len(every.prompt_logprobs[0]), 1 + self.model.info["n_vocab"])
        none = self.engine.generate("The fox", max_tokens=0, prompt_logprobs=3)
        self.assertEqual(none.result().tokens, [])
        self.assertEqual([len(row) for row in none.prompt_logprobs], [4] * (len(self.model.tokenize("The fox", bos=True)) - 1))
        scored = self.engine.complete("The", max_tokens=5, logprobs=2, greedy=True)
        self.assertEqual([row[0].token for row in scored.logprobs], scored.tokens)
        self.assertTrue(all(row[0] == row[1] and row[1].logprob >= row[2].logprob for row in scored.logprobs))

    def test_choices_come_by_their_number(self):
        stream = self.engine.generate("Once", n=3, max_tokens=6, seed=1)
        with self.assertRaisesRegex(ValueError, "3 texts"):
            iter(stream)
        texts = ["", "", ""]
        for event in stream.events():
            texts[event.choice] += event.text
        self.assertEqual(texts, [result.text for result in stream.results])
        self.assertEqual(texts[0], self.engine.complete("Once", max_tokens=6, seed=1).text)

    def test_chat_uses_the_template(self):
        messages = [{"role": "user", "content": "Say <|end|> twice."}]
        text = self.model.render_chat(messages)
        self.assertIn("Say <|end|> twice.", text)
        ids = self.model.chat_tokens(messages)
        ends = [self.model.tokenize(part, special=True)[0] for part in ("<|end|>",)]
        self.assertEqual(ids.count(ends[0]), text.count("<|end|>") - 1)  # the message's own is text
        self.assertNotIn("\ufdd0", self.model.detokenize(ids, special=True))  # nor is a guard left in it
        answer = self.engine.chat(messages, max_tokens=5, seed=1).result()
        self.assertEqual(answer.text, self.engine.complete(ids, max_tokens=5, seed=1).text)
        with runnel.ChatTemplate(self.model, "{{ messages[0].content }}{{ tools | length }}{{ mood }}") as template:
            self.assertEqual(self.model.render_chat(messages, template=template, tools=[{}, {}], variables={"mood": "!"}),
                             "Say <|end|> twice.2!")
        with self.assertRaisesRegex(runnel.ClosedError, "closed"):
            self.model.render_chat(messages, template=template)

    def test_a_text_is_a_users_message(self):
        text = 'Say "[{}]".'
        self.assertEqual(self.model.render_chat(text), self.model.render_chat([{"role": "user", "content": text}]))
        self.assertEqual(self.engine.chat(text, max_tokens=5, seed=1).result().text,
                         self.engine.complete(self.model.chat_tokens(text), max_tokens=5, seed=1).text)

    def test_kv_types_have_their_other_names(self):
        with runnel.Engine(self.model, n_ctx=64, kv_type="q8_0") as engine:
            self.assertEqual(engine.info["kv_type"], "int8")
        with self.assertRaisesRegex(runnel.ArgumentError, "'q9_0' is unknown"):
            runnel.Engine(self.model, n_ctx=64, kv_type="q9_0")

    def test_shapes_hold(self):
        for source, pattern in (({"regex": "[ab]{5}c"}, "[ab]{5}c"), ({"grammar": 'root ::= "x" | "yy"'}, "x|yy"),
                                ({"choices": ["one", "two"]}, "one|two"), ({"json_object": True}, r"\s*\{[\s\S]*")):
            with self.model.shape(**source) as shape:
                self.assertRegex(self.engine.complete("Once", shape=shape, max_tokens=60, seed=2).text, f"^({pattern})$")
        for source in ({}, {"regex": "a", "grammar": "b"}, {"xml": "a"}):
            with self.assertRaisesRegex(TypeError, "expected one of json_schema"):
                self.model.shape(**source)

    def test_embeddings(self):
        one = self.engine.embed("a fox")
        two = self.engine.embed(["a fox", "a dog"], pooling="last", normalize=False)
        self.assertEqual(len(one), self.model.info["n_embd"])
        self.assertAlmostEqual(sum(x * x for x in one), 1, 5)
        self.assertNotEqual(two[0], two[1])
        first = self.engine.embed("a fox", pooling="cls")
        self.assertEqual(one, self.engine.embed("a fox", pooling="mean", normalize=True))
        self.assertNotEqual(first, one)
        self.assertIsNone(self.model.info["pooling"])
        self.assertEqual(self.model.info["normalizes"], -1)
        with self.assertRaisesRegex(ValueError, "'max' is not supported.*mean, last, cls"):
            self.engine.embed("a", pooling="max")
        with runnel.Engine(self.model, max_seqs=1, max_waiting=1, n_ctx=64) as small:  # more than may wait
            many = small.embed(["a fox", "a dog"] * 10)
        self.assertEqual(many, [many[0], many[1]] * 10)

    def test_tokens(self):
        text = "A fox, 3 lanterns and a \N{SNOWMAN}!"
        ids = self.model.tokenize(text)
        self.assertEqual(self.model.detokenize(ids), text)
        self.assertEqual(b"".join(map(self.model.token_bytes, ids)), text.encode())
        self.assertEqual(self.model.tokenize("a", bos=True)[0], self.model.bos)
        self.assertTrue(self.model.is_special(self.model.eos) and self.model.is_end(self.model.eot))
        self.assertEqual(self.model.token_bytes(-1), b"")
        with runnel.Model("model.gguf", vocab_only=True) as vocab:
            self.assertEqual(vocab.tokenize(text), ids)
            with self.assertRaisesRegex(runnel.ArgumentError, "vocabulary alone"):
                runnel.Engine(vocab)


class Assistants(unittest.TestCase):
    def complete(self, model, speculate):
        with runnel.Engine(model, max_seqs=2, n_ctx=128, speculate=speculate, draft_min=2, draft_max=2) as engine:
            return engine.complete([5, 9, 12], max_tokens=20, greedy=True, ignore_eos=True)

    def test_an_attached_block_drafts_and_the_text_stays(self):
        with runnel.Model("pair/model.gguf") as model:
            self.assertIsNone(model.info["block_path"])
            model.attach("pair/assistant.gguf")
            self.assertEqual(model.info["block_path"], "pair/assistant.gguf")
            plain, drafted = self.complete(model, "off"), self.complete(model, "mtp")
            self.assertEqual(plain.tokens, drafted.tokens)
            self.assertGreater(drafted.timings.accepted_tokens, 5)
            with self.assertRaisesRegex(runnel.ArgumentError, "draft block already"):
                model.attach("pair/assistant.gguf")

    def test_a_block_that_does_not_fit_leaves_the_model_as_it_was(self):
        with runnel.Model("model.gguf") as model:
            with self.assertRaisesRegex(runnel.ModelError, "drafts for models of 'gemma4'"):
                model.attach("pair/assistant.gguf")
            with runnel.Engine(model, max_seqs=1, n_ctx=64) as engine:
                self.assertEqual(len(engine.complete("Once", max_tokens=3).tokens), 3)


class Together(WithEngine):
    def test_threads(self):
        want = {i: self.engine.complete(f"Story {i}", max_tokens=12, seed=i).text for i in range(12)}
        got, threads = {}, []
        for i in want:
            def work(i=i):
                got[i] = "".join(self.engine.generate(f"Story {i}", max_tokens=12, seed=i))
            threads.append(threading.Thread(target=work))
            threads[-1].start()
        for thread in threads:
            thread.join()
        self.assertEqual(want, got)

    def test_coroutines(self):
        async def one(i):
            text = ""
            async for piece in self.engine.generate(f"Story {i}", max_tokens=12, seed=i):
                text += piece
            return text

        async def all_of_them():
            texts = await asyncio.gather(*(one(i) for i in range(12)))
            return texts, (await self.engine.generate("Story 5", max_tokens=12, seed=5)).text

        texts, fifth = asyncio.run(all_of_them())
        self.assertEqual(texts, [self.engine.complete(f"Story {i}", max_tokens=12, seed=i).text for i in range(12)])
        self.assertEqual(texts[5], fifth)

    def test_a_task_that_is_cancelled_cancels_its_request(self):
        before = self.engine.stats["cancelled"]

        async def endless():
            async with self.engine.generate("Once", ignore_eos=True, draft_max=-1, timeout=60) as stream:
                async for _ in stream:
                    await asyncio.sleep(0.001)

        async def main():
            task = asyncio.ensure_future(endless())
            await asyncio.sleep(0.02)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        self.wait_for(lambda: self.engine.stats["running"] == 0)
        self.assertGreaterEqual(self.engine.stats["cancelled"], before)


class Names(unittest.TestCase):
    def setUp(self):
        os.makedirs("store/Own/Tale-GGUF", exist_ok=True)
        if not os.path.exists("store/Own/Tale-GGUF/Tale-Q8_0.gguf"):
            os.link("model.gguf", "store/Own/Tale-GGUF/Tale-Q8_0.gguf")
        os.environ["RUNNEL_MODELS"] = os.path.abspath("store")

    def test_a_model_is_found_by_its_name(self):
        for name in ("Own/Tale-GGUF", "tale:q8_0"):
            with runnel.Model(name, vocab_only=True) as model:
                self.assertTrue(model.info["path"].endswith("/store/Own/Tale-GGUF/Tale-Q8_0.gguf"))
        with self.assertRaisesRegex(runnel.FileError, "Own/Nothing: no such file, and no model of this name"):
            runnel.Model("Own/Nothing")
        with self.assertRaisesRegex(runnel.FileError, r"^\./Own: No such file"):
            runnel.Model("./Own")

    def test_without_the_program_the_error_says_so(self):
        with mock.patch("runnel._names._program", lambda: None), \
                self.assertRaisesRegex(runnel.FileError, "Own/Tale-GGUF: No such file .* program 'runnel'"):
            runnel.Model("Own/Tale-GGUF")

    def test_a_program_that_cannot_run_is_named(self):
        program = Path("broken").resolve()
        program.write_bytes(b"no program")
        program.chmod(0o755)
        with mock.patch("runnel._names._program", lambda: str(program)), \
                self.assertRaisesRegex(runnel.FileError, f"^Own/Tale-GGUF: .* cannot be run: .*{program}"):
            runnel.Model("Own/Tale-GGUF")

    def test_variables_for_programs_do_not_matter(self):
        with mock.patch.dict(os.environ, RUNNEL_JSON="1", RUNNEL_NAMES="1"), \
                runnel.Model("Own/Tale-GGUF", vocab_only=True) as model:
            self.assertTrue(model.info["path"].endswith("/Tale-Q8_0.gguf"))

    def test_a_path_may_end_in_a_line_feed(self):
        program = Path("answering").resolve()
        program.write_text("#!/bin/sh\nprintf 'odd\\n\\n'\n")
        program.chmod(0o755)
        with mock.patch("runnel._names._program", lambda: str(program)):
            self.assertEqual(b"odd\n", _names.path_of("name"))


class Ends(unittest.TestCase):
    def setUp(self):
        self.model = runnel.Model("model.gguf")
        self.addCleanup(self.model.close)

    def engine(self, **options):
        engine = runnel.Engine(self.model, **{"n_ctx": 1024, **options})
        self.addCleanup(engine.close)
        return engine

    def test_cancel(self):
        stream = self.engine().generate("Once", ignore_eos=True)
        next(iter(stream))
        stream.cancel()
        self.assertEqual(stream.result().finish, "cancelled")
        stream.cancel()  # nothing happens

    def test_a_dropped_stream_is_cancelled(self):
        engine = self.engine(n_threads=1)
        streams = [engine.generate("Once", ignore_eos=True) for _ in range(3)]
        kept = weakref.ref(streams[0])
        del streams
        gc.collect()
        self.assertIsNone(kept())
        for _ in range(1000):
            if engine.stats["running"] + engine.stats["waiting"] == 0 and engine.stats["submitted"] == 3:
                break
            time.sleep(0.01)
        stats = engine.stats
        self.assertEqual((stats["running"], stats["waiting"], stats["pages_held"]), (0, 0, 0))
        self.assertGreaterEqual(stats["cancelled"], 2)

    def test_a_reader_that_does_not_follow_is_waited_for(self):
        engine = self.engine(n_ctx=1024, max_seqs=8)
        stream = engine.generate("Once", ignore_eos=True, n=8)
        for _ in range(1000):  # 8 texts of 1000 tokens are more than the stream keeps
            if stream._is_paused or stream._events and stream._events[-1].last:
                break
            time.sleep(0.01)
        self.assertTrue(stream._is_paused)
        self.assertLess(len(stream._events), 2 * PAUSE_AT)
        stream.result()
        self.assertEqual([len(result.tokens) for result in stream.results],
                         [1024 - len(self.model.tokenize("Once", bos=True))] * 8)

    def test_a_closed_engine_ends_its_streams(self):
        engine = self.engine(max_seqs=1)
        streams = [engine.generate("Once", ignore_eos=True) for _ in range(3)]
        outcome = []

        def read():
            try:
                outcome.append(streams[2].result().finish)
            except runnel.CancelledError as error:
                outcome.append(str(error))

        reader = threading.Thread(target=read)
        reader.start()
        engine.close()
        reader.join(20)
        self.assertIn(outcome, (["cancelled"], ["the engine was closed"]))
        for call in (lambda: engine.generate("a"), lambda: engine.stats, lambda: engine.info):
            with self.assertRaisesRegex(ValueError, "the engine is closed"):
                call()
        engine.close()

    def test_a_model_that_is_closed_first_stays_for_its_engine(self):
        model = runnel.Model("model.gguf")
        engine, shape = runnel.Engine(model, n_ctx=64), model.shape(choices=["a"])
        stream = engine.generate("Once", ignore_eos=True)
        model.close()
        self.assertEqual(stream.result().finish, "length")
        with self.assertRaisesRegex(ValueError, "the model is closed"):
            model.tokenize("a")
        engine.close()
        self.assertIsNotNone(model._handle)
        shape.close()
        self.assertIsNone(model._handle)

    def test_dropped_objects_are_freed(self):
        model = runnel.Model("model.gguf")
        kept = weakref.ref(model)
        model.render_chat([{"role": "user", "content": "a"}])
        engine = runnel.Engine(model, n_ctx=64)
        engine.complete("Once", max_tokens=3)
        threads = threading.active_count()
        del engine, model
        gc.collect()
        for _ in range(500):
            if kept() is None:
                break
            time.sleep(0.01)
        self.assertIsNone(kept())
        self.assertLess(threading.active_count(), threads)

    def test_progress_is_told(self):
        seen = []
        self.engine(progress=lambda done, total: seen.append((done, total)))
        self.assertEqual(seen[-1][0], seen[-1][1])


class Errors(WithEngine):
    def test_each_names_the_value(self):
        engine, model = self.engine, self.model
        for kind, pattern, call in (
                (runnel.FileError, "^nope.gguf: No such file", lambda: runnel.Model("nope.gguf")),
                (runnel.ModelError, "layout.bad", lambda: runnel.Model("layout.bad")),
                (runnel.ArgumentError, "isa: 'avx9'", lambda: runnel.Engine(model, isa="avx9")),
                (runnel.ArgumentError, "temperature is -1", lambda: engine.generate("a", temperature=-1)),
                (runnel.ContextError, "the context holds 256", lambda: engine.generate("a " * 400)),
                (runnel.DeadlineError, "deadline", lambda: engine.complete("a", timeout=1e-8)),
                (runnel.ArgumentError, "/type", lambda: model.shape(json_schema={"type": "nothing"})),
                (runnel.ArgumentError, "messages: not a JSON array", lambda: model.render_chat({})),
                (ValueError, "max_tokens: 1099511627776 is out of range", lambda: engine.generate("a", max_tokens=2**40)),
                (ValueError, "token 1 is 1099511627776", lambda: engine.generate([1, 2**40])),
                (ValueError, "token 0 is 4294967297", lambda: model.detokenize([2**32 + 1])),
                (ValueError, "token 0 is 4294967297", lambda: engine.generate("a", logit_bias={2**32 + 1: 100})),
                (ValueError, "budget: 1099511627776", lambda: engine.generate("a", reasoning={"budget": 2**40})),
                (runnel.ArgumentError, "more than 4 marks in reasoning.answer",
                 lambda: engine.generate("a", reasoning={"close": "x", "answer": list("abcde")})),
                (TypeError, "no 'store_note'", lambda: runnel.Engine(model, store_note=12345)),
                (ValueError, "stop: .* has a NUL", lambda: engine.generate("a", stop="a\0b")),
                (ValueError, "another model's", lambda: engine.generate("a", shape=runnel.Model("model.gguf").shape(regex="a"))),
                (TypeError, "'temprature'; did you mean 'temperature'", lambda: engine.generate("a", temprature=1)),
                (TypeError, "'max_seq'; did you mean 'max_seqs'", lambda: runnel.Engine(model, max_seq=1)),
                (TypeError, "max_tokens: expected a whole number, got 'many'", lambda: engine.generate("a", max_tokens="many")),
                (TypeError, "stop: expected a str", lambda: engine.generate("a", stop=[3]))):
            Path("layout.bad").write_text("no model")
            with self.subTest(pattern=pattern), self.assertRaisesRegex(kind, pattern):
                call()
        self.assertTrue(issubclass(runnel.DeadlineError, TimeoutError) and issubclass(runnel.FileError, OSError))

    def test_whatever_is_given_fails_with_an_error_of_the_package(self):
        deep = []
        for _ in range(100000):
            deep = [deep]
        values = [None, -1, 2**70, -2**70, 2**31, "x", b"x", 1.5, float("nan"), float("inf"), [], {}, (), object(), "a\0b",
                  "\ud800", [None], ["x"], [1.5], [[]], {"a": 1}, {1: "x"}, True, range(3), len, deep]
        model, engine = self.model, self.engine
        user = [{"role": "user", "content": "a"}]
        for value in values:
            calls = [(name, lambda name=name: engine.complete("a", **{"max_tokens": 1, name: value}))
                     for name in runnel.Settings.__annotations__]
            calls += [(name, lambda name=name: model.plan_memory(**{name: value})) for name in ENGINE_OPTIONS]
            calls += [(name, lambda name=name: getattr(model, name)(value)) for name in (
                "tokenize", "detokenize", "token_bytes", "is_special", "is_end", "render_chat", "chat_tokens", "attach")]
            calls += [(name, lambda name=name: model.render_chat(user, **{name: value})) for name in (
                "tools", "variables", "template", "add_generation_prompt", "continue_final")]
            calls += [(name, lambda name=name: model.shape(**{name: value})) for name in (*native.SHAPES, "xml")]
            calls += [("prompt", lambda: engine.complete(value, max_tokens=1)), ("texts", lambda: engine.embed(value)),
                      ("messages", lambda: engine.chat(value, max_tokens=1).result()),
                      ("pooling", lambda: engine.embed("a", pooling=value)), ("path", lambda: runnel.Model(value)),
                      ("source", lambda: runnel.ChatTemplate(model, value)),
                      ("template's model", lambda: runnel.ChatTemplate(value, "a")),
                      ("engine's model", lambda: runnel.Engine(value)),
                      ("draft", lambda: runnel.Engine(model, n_ctx=64, draft=value)),
                      ("progress", lambda: runnel.Engine(model, n_ctx=64, progress=None if value is len else value))]
            for what, call in calls:
                try:
                    made = call()
                except runnel.Error:
                    continue
                except Exception as error:
                    self.fail(f"{what} of {reprlib.repr(value)}: {error!r}")
                if hasattr(made, "close"):
                    made.close()

    def test_wrong_types_and_closed_objects_are_also_python_errors(self):
        for kinds, call in (
                ((runnel.ArgumentTypeError, TypeError, ValueError), lambda: self.engine.generate(None)),
                ((runnel.ArgumentTypeError, TypeError), lambda: runnel.Engine(self.model, kv_type=5)),
                ((runnel.ArgumentTypeError, TypeError), lambda: self.engine.generate("a", include_stop="no")),
                ((runnel.ArgumentError, ValueError), lambda: self.engine.generate("a", seed=-1))):
            for kind in kinds:
                self.assertRaises(kind, call)
        model = runnel.Model("model.gguf")
        model.close()
        with self.assertRaises(runnel.ClosedError) as closed:
            model.tokenize("a")
        self.assertIsInstance(closed.exception, ValueError)

    def test_an_error_of_a_request_is_raised_by_its_stream(self):
        stream = self.engine.generate("Once", timeout=1e-7, ignore_eos=True)
        with self.assertRaises(runnel.DeadlineError):
            for _ in stream:
                pass

    def test_a_full_engine_says_so(self):
        with runnel.Engine(self.model, max_seqs=1, max_waiting=1, n_ctx=64) as engine, self.assertRaises(runnel.FullError):
            streams = [engine.generate("Once", ignore_eos=True, n=1) for _ in range(200)]
            self.fail(f"{len(streams)} were taken")


if __name__ == "__main__":
    unittest.main(verbosity=0)
