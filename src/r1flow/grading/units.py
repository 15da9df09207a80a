r"""Units, their products and quotients, and money: two texts name one unit if their measures are equal.

    measure_of("m/s^2") == measure_of("meters per second squared")    # True
    measure_of("kg m/s^2") == measure_of("N")                         # True
    measure_of("km/h") == measure_of("m/s")                           # False: no unit is converted
    measure_of("apples per day")                                      # None

A measure is a number times powers of units that aren't defined by others. What follows a slash or "per" is divided by,
as in J/mol K, which is J/(mol K).
"""

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache

UNITS = {
    "dollar": "dollars usd", "cent": "cents ¢", "euro": "euros eur", "pound": "pounds lb lbs gbp",
    "mm": "millimeter millimeters millimetre millimetres", "cm": "centimeter centimeters centimetre centimetres",
    "m": "meter meters metre metres", "km": "kilometer kilometers kilometre kilometres",
    "μm": "micrometer micrometers micrometre micrometres micron microns", "angstrom": "angstroms å",
    "nm": "nanometer nanometers nanometre nanometres",
    "inch": "inches in", "foot": "feet ft", "yard": "yards yd", "mile": "miles mi",
    "mg": "milligram milligrams", "g": "gram grams", "kg": "kilogram kilograms kilos", "ounce": "ounces oz",
    "ton": "tons tonne tonnes", "ml": "milliliter milliliters millilitre millilitres cc",
    "liter": "liters litre litres l", "gallon": "gallons gal", "pint": "pints", "quart": "quarts",
    "tablespoon": "tablespoons tbsp", "teaspoon": "teaspoons tsp", "bushel": "bushels", "acre": "acres",
    "hectare": "hectares", "second": "seconds sec secs s", "minute": "minutes min mins", "hour": "hours hr hrs h",
    "day": "days", "week": "weeks", "month": "months", "year": "years yr yrs", "am": "a.m. a.m", "pm": "p.m. p.m",
    "yuan": "rmb", "yen": "¥", "rupee": "rupees", "ruble": "rubles roubles", "peso": "pesos", "franc": "francs",
    "degree": "degrees deg", "radian": "radians rad", "celsius": "centigrade", "fahrenheit": "", "kelvin": "kelvins",
    "unit": "units", "mph": "", "kmh": "kph kmph", "hertz": "hz", "newton": "newtons", "joule": "joules",
    "watt": "watts",
    "kilowatt": "kilowatts", "volt": "volts", "ampere": "amperes amps", "pascal": "pascals", "ohm": "ohms",
    "mole": "moles", "coulomb": "coulombs", "won": "", "revolution": "revolutions rev revs", "rpm": "",
    "decibel": "decibels db", "calorie": "calories cal", "kcal": "kilocalorie kilocalories", "psi": "", "knot": "knots",
    "bit": "bits", "byte": "bytes", "kilobyte": "kilobytes", "megabit": "megabits", "megabyte": "megabytes",
    "gigabyte": "gigabytes", "parsec": "parsecs", "atm": "atmospheres", "pence": "", "fps": "", "bpm": "",
}  # fmt: skip
UNIT = {word: unit for unit, others in UNITS.items() for word in (unit, *others.split())}
# As they are written: 73M and 73K may be millions and thousands. And the prefixes that they are used with.
SYMBOLS = {
    "N": "newton", "J": "joule", "W": "watt", "V": "volt", "A": "ampere", "Pa": "pascal", "mol": "mole", "L": "liter",
    "atm": "atm", "eV": "eV", "Wh": "Wh", "Hz": "hertz", "Å": "angstrom", "ohm": "ohm",
    "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte",
}  # fmt: skip
PREFIXED = {
    "m": "nμmcdk", "g": "μmk", "s": "nμm", "N": "kM", "J": "mkM", "W": "mkMG", "V": "mkM", "A": "mμ", "Pa": "hkM",
    "mol": "mμk", "L": "mcdμ", "Hz": "kMG", "eV": "kMG", "Wh": "kM", "ohm": "kM",
}  # fmt: skip
PREFIXES = {"n": -9, "μ": -6, "m": -3, "c": -2, "d": -1, "h": 2, "k": 3, "M": 6, "G": 9}
DEFINED = {  # by others, with a number before them
    "cent": "1/100 dollar", "ml": "1/1000 liter", "liter": "1/1000 m^3", "minute": "60 second", "hour": "60 minute",
    "mph": "1 mile hour^-1", "kmh": "1 km hour^-1", "rpm": "1 revolution minute^-1", "psi": "1 pound inch^-2",
    "hertz": "1 second^-1", "newton": "1 kg m second^-2", "joule": "1 newton m", "watt": "1 joule second^-1",
    "kilowatt": "1000 watt", "coulomb": "1 ampere second", "volt": "1 joule coulomb^-1", "ohm": "1 volt ampere^-1",
    "pascal": "1 newton m^-2", "Wh": "3600 joule", "kcal": "1000 calorie", "hectare": "10000 m^2",
    "angstrom": "1/10000000000 m",
}  # fmt: skip
WITH_PREFIX = {}
for symbol, prefixes in PREFIXED.items():
    for prefix in prefixes:
        WITH_PREFIX[f"{prefix}{symbol}"] = f"{Fraction(10) ** PREFIXES[prefix]} {SYMBOLS.get(symbol, UNIT.get(symbol))}"
SYMBOLS |= {unit: unit for unit in WITH_PREFIX}
DEFINED |= WITH_PREFIX
THOUSANDS_OF = re.compile("[KMBT]+")
BEFORE_ITS_UNIT = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
AFTER_ITS_UNIT = {"squared": 2, "cubed": 3}
DIVIDING = {"/", "per", "a", "an", "each", "every"}  # at the end, "each" divides by nothing
FILLERS = {"per", "of", "a", "an", "the", "each"}
LEFT = {"left", "remaining", "each", "ago", "later", "away", "over"}  # may follow a number alone, too
DESCRIBING = LEFT | {
    *("total", "positive", "real", "lattice", "small", "large", "chocolate", "ordered"),
    *("more", "different", "distinct", "new", "whole", "full", "additional", "extra", "possible", "old", "red", "blue"),
    *("long", "wide", "tall", "high", "deep"),
    *("green", "yellow", "black", "white", "orange", "purple", "pink", "brown", "gray", "grey"),
}
CHINESE_UNITS = {
    "元": "yuan", "天": "day", "米": "m", "厘米": "cm", "毫米": "mm", "千米": "km", "公里": "km", "克": "g",
    "千克": "kg", "公斤": "kg", "升": "liter", "毫升": "ml", "秒": "second", "分钟": "minute", "小时": "hour",
    "周": "week", "年": "year", "个月": "month", "度": "degree", "美元": "dollar", "欧元": "euro", "岁": "year",
    "日": "day", "円": "yen", "吨": "ton", "平方米": "m^2", "平方厘米": "cm^2", "平方千米": "km^2", "立方米": "m^3",
    "立方厘米": "cm^3",
}  # fmt: skip
COUNT = "count"  # the measure of a noun that is counted: apples
SIGN = r"(?:US)?\\?\$|[€£¢¥₹₩₽]|(?:USD|EUR|GBP|INR|Rs\.?)(?= ?\d)"
CURRENCY = re.compile(SIGN)
MONEY = {
    "$": "dollar", "US$": "dollar", "USD": "dollar", "€": "euro", "EUR": "euro", "£": "pound", "GBP": "pound",
    "¢": "cent", "¥": "yen", "₹": "rupee", "INR": "rupee", "Rs": "rupee", "₩": "won", "₽": "ruble",
}  # fmt: skip
# In LaTeX: \text{ m}/\text{s}^2, \mathrm{kg\cdot m}, \mu\text{m}, J mol^{-1}.
RAISED_TO = r"\s?\^\s?(?:\{\s?-?\d\s?\}|-?\d)"
IN_COMMAND = (
    r"(?:\\mu\s*)?\\(?:text|mathrm|mbox|textrm|textbf)\s*"
    r"\{(?:[^{}\\\d^]|\^-?\d|\^\{-?\d\}|\\[,;:! ]|\\(?:cdot|mu)(?![a-z]))*\}"
)
FLAT = (
    (re.compile(r"\\mu\s*(?:\\(?:text|mathrm|mbox|textrm|textbf)\s*\{\s*)?|µ"), "μ"),
    (re.compile(r"\\(?:text|mathrm|mbox|textrm|textbf)\s*\{|\\cdot(?![A-Za-z])|\\[,;:! ]|[~*·()]"), " "),
    (re.compile(r"\s*\^\s*\{?\s*(-?\d)\s*\}?"), r"^\1 "),
    (re.compile(r"[{}]"), ""),
    (re.compile(r"/"), " / "),
)


def flattened(written: str) -> str:
    """A unit's words, powers and slashes, without LaTeX's commands and brackets."""
    for pattern, plain in FLAT:
        written = pattern.sub(plain, written)
    return " ".join(written.split())


def unit_named(word: str) -> str | None:
    return SYMBOLS.get(word) or (None if THOUSANDS_OF.fullmatch(word) else UNIT.get(word.lower()))


def measure_of(words: str) -> str | None:
    """The measure that flattened words name; None if any of them is no unit."""
    factors: list[tuple[str, int]] = []
    sign, raised, parts = 1, 1, words.split()
    for index, part in enumerate(parts):
        name, _, power = part.partition("^")
        plain = name.lower().rstrip(".") if name != "A" else name
        if plain in DIVIDING and plain != "each" and index + 1 == len(parts):
            return None
        if plain in DIVIDING:
            sign = -1
        elif plain in AFTER_ITS_UNIT and factors:
            factors[-1] = (factors[-1][0], factors[-1][1] * AFTER_ITS_UNIT[plain])
        elif plain in BEFORE_ITS_UNIT:
            raised = BEFORE_ITS_UNIT[plain]
        elif plain not in DESCRIBING | FILLERS:
            power = sign * raised * int(power or 1)
            # 300 K may be three hundred thousand, but what is divided by K is by kelvins.
            unit = "kelvin" if name == "K" and power < 0 else unit_named(name) or unit_named(name.rstrip("."))
            if unit is None:
                return None
            factors.append((unit, power))
            raised = 1
    return as_measure(*factors) if factors and raised == 1 else None


@lru_cache(maxsize=1024)
def as_measure(*powers_of: tuple[str, int]) -> str:
    """The measure of a product of units, each with its power."""
    scale, powers = in_bases(powers_of)
    bases = [f"{base}^{power}" for base, power in sorted(powers.items()) if power]
    return " ".join([str(scale), *bases])


def in_bases(factors: tuple[tuple[str, int], ...]) -> tuple[Fraction, Counter[str]]:
    scale, powers = Fraction(1), Counter()
    for unit, power in factors:
        if unit not in DEFINED:
            powers[unit] += power
            continue
        number, *others = DEFINED[unit].split()
        inner, bases = in_bases(tuple(map(factor_named, others)))
        scale *= (Fraction(number) * inner) ** power
        for base, times in bases.items():
            powers[base] += times * power
    return scale, powers


def factor_named(text: str) -> tuple[str, int]:
    """A unit and its power, from second^-2."""
    unit, _, power = text.partition("^")
    return unit, int(power or 1)


UNNAMED = {as_measure(("unit", power)) for power in (1, 2, 3)}


def same_measure(one: str | None, other: str | None) -> bool:
    """Whether two measures may be of the same: none is known of one, or both are equal. Units of no name count."""
    if not one or not other or one == other:
        return True
    return COUNT in (one, other) and bool(UNNAMED & {one, other})
