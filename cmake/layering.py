"""Checks every #include of the layers against the table that CMake writes (layers.txt).

    layering.py TABLE ROOT           exit 1 and one line per crossing
    layering.py --self-test FOLDER   plants crossings in a small tree there and expects each be found

Unlike the compiler it also sees includes in inactive #if blocks, `../` escapes, system-wide headers
of third parties, and names of targets in the layers that must not know any.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\b\s*(.*?)\s*$')
COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.S)
# gelu_pytorch_tanh is an activation in config.json.
ANYWHERE = re.compile(
    r'megatron|deep_?speed|fsdp|torch_?titan|nanotron|hf[-_ ]?trainer|(?<!gelu_)py_?torch', re.I)
# Ordinary words, so only a whole part of an identifier counts: accelerate_args, BuiltinTraits.
WHOLE = re.compile(r'(?<![A-Za-z])(?<!__)(?:accelerate|builtin)(?![a-z])|(?:Accelerate|Builtin)(?![a-z])')
NAMELESS = ('estimator', 'search')
VERSION_HEADER = 'planwright_version.h'


def read_table(path):
    third_party, layers = {}, []
    for line in pathlib.Path(path).read_text().splitlines():
        kind, name, *fields = line.split('|')
        fields = [[entry for entry in field.split(',') if entry] for field in fields]
        if kind == 'third_party':
            third_party[name] = fields[0]
        else:
            layers.append((name, *fields))
    return third_party, layers


def without_comments(text):
    """Blanks comments and keeps the number of lines."""
    def blank(match):
        token = match.group()
        return token if token[0] in '"R\'' else '\n' * token.count('\n')
    return COMMENT_OR_STRING.sub(blank, text)


def include_problem(spelling, layer, is_header, table):
    """What is wrong with `#include <spelling>` in a file of the layer, or None."""
    third_party, layers = table
    name, own, uses, links, hides = layer
    header = spelling[1:-1]
    folder = header.rpartition('/')[0]
    folders = {row[0]: row[1] for row in layers}
    parties = {key for key, prefixes in third_party.items() if header.startswith(tuple(prefixes))}
    if not re.fullmatch(r'<[^<>]+>|"[^"]+"', spelling):
        return 'cannot be read'
    if '..' in header.split('/') or header.startswith('/'):
        return 'leaves the folder; includes are written from the root'
    if parties:
        allowed = links if is_header else links + hides
        return None if parties & set(allowed) else f'is of {min(parties)}, which {name} may not see here'
    if header == VERSION_HEADER:
        return None if 'version' in uses else f'is not for {name}, which does not use version'
    if spelling[0] == '<':
        return 'is ours; write it in quotes' if any(folder in each for each in folders.values()) else None
    seen = own + [each for layer in uses for each in folders.get(layer, [])]
    return None if folder in seen else f'is outside what {name} may include: {", ".join(seen)}'


def file_problems(path, layer, table):
    code = without_comments(path.read_text(encoding='utf-8'))
    may_name_targets = layer[1][0].split('/')[0] not in NAMELESS
    for number, line in enumerate(code.splitlines(), 1):
        include = INCLUDE.match(line)
        if include:
            problem = include_problem(include.group(1), layer, path.suffix == '.h', table)
            if problem:
                yield f'{number}: {include.group(1)} {problem}'
        elif not may_name_targets and (named := ANYWHERE.search(line) or WHOLE.search(line)):
            yield (f'{number}: names the target "{named.group()}"; what differs between targets '
                   'belongs in their TargetTraits')


def problems(table, root):
    for layer in table[1]:
        for folder in layer[1]:
            for path in sorted((root / folder).glob('*')):
                if path.suffix in ('.h', '.cpp'):
                    for problem in file_problems(path, layer, table):
                        yield f'{path.relative_to(root)}:{problem}'


PLANTED = {
    'spec/plain.h': ('#include <string>\n#include "json/json.hpp"\n// megatron is only a source here\n', 0),
    'spec/plain.cpp': ('#include "spec/plain.h"\n#include <fmt/format.h>\n', 0),
    'spec/hidden.h': ('#include <fmt/format.h>\n', 1),
    'search/up.cpp': ('#include "spec/plain.h"\n#include "../studies/store.h"\n', 1),
    'search/across.cpp': ('#if 0\n  #  include "studies/store.h"\n#endif\n', 1),
    'search/commented.cpp': ('// #include "studies/store.h"\n/* #include "studies/store.h"\n*/ int x;\n', 0),
    'search/macro.cpp': ('#include STORE_HEADER\n', 1),
    'search/near.cpp': ('#include "near.h"\n', 1),
    'search/angled.cpp': ('#include <studies/store.h>\n', 1),
    'search/party.cpp': ('#include <sqlite3.h>\n', 1),
    'search/names.cpp': ('auto a = "deepspeed"; // x\nint fsdp_units;\nstruct BuiltinTraits;\n', 3),
    'search/words.cpp': ('int n = __builtin_popcount(3); auto t = "gelu_pytorch_tanh"; auto s = "// accelerated";  // torchtitan\n', 0),
    'search/quote.cpp': ("char q = '\"'; // fsdp\nint x = 1'000;  // \"fsdp\n", 0),
    'search/late.cpp': ('auto url = "http://x"; auto t = "accelerate"; auto c = "command";\n', 1),
    'studies/store.h': ('', 0),
    'studies/version.cpp': ('#include "planwright_version.h"\nint fsdp;\n', 1),
}


def self_test(root):
    table = ({'fmt': ['fmt/'], 'json': ['json/'], 'sqlite': ['sqlite3.h']},
             [('spec', ['spec'], [], ['json'], ['fmt']), ('search', ['search'], ['spec'], [], []),
              ('studies', ['studies'], ['spec'], ['sqlite'], [])])
    for name, (text, _) in PLANTED.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    found = list(problems(table, root))
    wrong = [f'{name}: expected {count}' for name, (_, count) in PLANTED.items()
             if sum(line.startswith(name + ':') for line in found) != count]
    print('\n'.join(wrong + found if wrong else [f'all {len(found)} planted crossings found']))
    return 1 if wrong else 0


if __name__ == '__main__':
    if sys.argv[1] == '--self-test':
        sys.exit(self_test(pathlib.Path(sys.argv[2])))
    crossings = list(problems(read_table(sys.argv[1]), pathlib.Path(sys.argv[2])))
    print('\n'.join(crossings) or 'no crossing')
    sys.exit(1 if crossings else 0)
