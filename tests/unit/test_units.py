r"""Units of answers: those that both sides state must agree, however they are written, and one may be left out."""

import pytest

from r1flow.grading import math
from r1flow.grading.units import flattened, measure_of

# A gold, answers that are right for it, and answers that are wrong.
CASES = [
    (
        "3 m/s",
        ["3 m/s", "3", "3 m s^{-1}", "3 meters per second", "3\\text{ m/s}",
         "3\\,\\frac{\\text{m}}{\\text{s}}", "3 m/sec"],
        ["3 km/h", "3 m/s^2", "3 m", "3 s", "3 s/m", "3 m/min", "3 ft/s", "3 meters", "3 N", "3\\%", "$3", "3 apples"],
    ),
    (
        "3 m/s",
        ["3\\,\\mathrm{m\\,s^{-1}}", "3 \\mathrm{m}\\cdot\\mathrm{s}^{-1}", "3 m·s⁻¹",
         "3\\text{ m}/\\text{s}", "$3$ m/s"],
        ["3\\,\\frac{\\text{km}}{\\text{h}}", "3 m s", "3 meters per second squared", "3 \\mathrm{m}/\\mathrm{s}^{2}"],
    ),
    (
        "60 miles per hour",
        ["60 mph", "60 miles/hour", "60 mi/h", "60 miles an hour", "60", "60 miles each hour"],
        ["60 kilometers per hour", "60 km/h", "60 miles", "60 hours", "60 miles per minute", "60 mi/day", "60 knots"],
    ),
    (
        "5 kg/m^3",
        ["5 kg m^{-3}", "5 g/L", "5", "5 \\mathrm{kg/m^3}", "5 kg/m³", "5 kilograms per cubic meter"],
        ["5 g/cm^3", "5 kg/m^2", "5 kg", "5 g/m^3", "5 m^3/kg", "5\\ \\mathrm{g\\cdot cm^{-3}}"],
    ),
    (
        "3 dollars per hour",
        ["\\$3 per hour", "\\$3/hour", "3 dollars an hour", "\\$3/h", "3", "$3 per hour"],
        ["3 dollars per day", "3 euros per hour", "\\$3/day", "\\$3 per day", "3 dollars"],
    ),
    ("3 tons", ["3 tonnes", "3"], ["3 kg", "3 pints", "3 apples"]),
    ("\\$3", ["3", "3 dollars", "$3"], ["3 \\%", "3 percent", "3 kg", "3 cents"]),
    ("3\\%", ["3", "3 percent", "0.03"], ["\\$3", "3 kg", "3 apples"]),
    ("12 square feet", ["12 ft^2", "12 sq. ft.", "12"], ["12 cubic feet", "12 square meters", "12 feet"]),
    ("5 N", ["5 \\text{ N}", "5 kg m/s^2", "5 newtons"], ["5 J", "5 \\text{ kg}", "5 \\text{ m/s^2}"]),
    ("8.314 J/(mol K)", ["8.314", "8.314 J/(mol·K)", "8.314 J mol^{-1} K^{-1}"], ["8.314 J/mol", "8.314 J"]),
    ("5 cm^3", ["5 mL", "5 \\text{ cm}^3"], ["5 cm^2", "5 L"]),
    ("2 acres", ["2"], ["2 hectares"]), ("3 megabytes", ["3"], ["3 gigabytes"]), ("7 apples", ["7 units"], ["7 cm"]),
    ("180 m^2", ["180平方米", "180 square meters"], ["180 平方厘米", "180 m^3"]), ("3 kWh", ["3"], ["3 kW"]),
    ("300 \\text{ K}", ["300", "300 kelvin"], ["300 °C", "300 J"]), ("200 kcal", ["200"], ["200 kJ", "200 calories"]),
]  # fmt: skip
NAMED = [  # a number, and answers with a unit that is known
    *(("200", text) for text in ("200 kcal", "200 rpm", "200 revolutions per minute", "200 liters of water")),
    *(("5", text) for text in ("5 μm", "5 µm", "5\\,\\mu\\text{m}", "5\\ \\mu m", "5 Å", "5 kΩ", "5 micrometers")),
    *(("60", "60 dB"), ("30", "30 psi"), ("25", "25 Celsius"), ("9.8", "9.8 m s^{-2}"), ("8.314", "8.314 J/(mol K)")),
    *(("300", "300 \\text{ K}"), ("300", "300\\,\\mathrm{K}"), ("18", "\\$18 per day"), ("18", "\\$18/day")),
    *(("0.0015", "1.5 × 10^{-3} m"), ("0.0015", "1.5e-3 m")),
]
NO_UNITS = [  # letters that may stand for thousands or for variables
    *(("73", "73K"), ("73", "73 K"), ("73", "73\\text{K}"), ("300", "300 K per month"), ("3m", "3"), ("3 m", "3")),
    *(
        ("2.5m", "2.5"),
        ("2.5x", "2.5"),
        ("15x", "15 m"),
        ("7ms", "7 m g"),
        ("3 m n", "3 m"),
        ("90^\\circ", "\\$90^\\circ"),
        ("300 \\text{ K}", "\\$300 \\text{ K}"),
        ("7", "7/x"),
    ),
]
PAIRS = []
for measured_gold, right, wrong in CASES:
    PAIRS += [(measured_gold, text, True) for text in right]
    PAIRS += [(measured_gold, text, False) for text in wrong]


@pytest.mark.parametrize(("gold", "answer", "verdict"), PAIRS)
def test_a_unit_that_both_sides_state_must_agree(gold: str, answer: str, verdict: bool) -> None:
    assert math.equal(gold, answer) is verdict


@pytest.mark.parametrize(("gold", "answer"), NAMED)
def test_a_known_unit_may_follow_a_number(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is True


@pytest.mark.parametrize(("gold", "answer"), NO_UNITS)
def test_what_may_be_something_else_is_no_unit(gold: str, answer: str) -> None:
    assert math.equal(gold, answer) is False


@pytest.mark.parametrize("unit", ["m", "s", "J", "V", "W", "N", "g", "h", "L"])
def test_a_gold_may_have_a_unit_of_one_letter(unit: str) -> None:
    for answer in ("3.14", f"3.14 \\text{{ {unit}}}", f"3.14 {unit}", f"3.14\\,\\mathrm{{{unit}}}"):
        assert math.equal(f"3.14 {unit}", answer) is True
        assert math.numeric(f"3.14 {unit}", answer, 1e-6, 0) is True
    for answer in ("3.15", "3.14 \\text{ kg}", "3.14 Pa", f"3.14 {unit}^2", "3.14x"):
        assert math.equal(f"3.14 {unit}", answer) is False
        assert math.numeric(f"3.14 {unit}", answer, 1e-6, 0) is False
    # After a whole number it may be a variable, unless the answer says that it is none.
    for answer in (f"3 \\text{{ {unit}}}", f"3 {unit}", f"3{unit}"):
        assert math.equal(f"3 {unit}", answer) is True
    assert math.equal(f"3 {unit}", "3") is False
    assert math.numeric(f"3 {unit}", "3.0", 1e-6, 0) is True


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("J", "N m"), ("W", "J/s"), ("kPa", "kN/m^2"), ("L", "dm^3"), ("mL", "cm^3"), ("V", "W/A"), ("ohm", "V/A"),
        ("Hz", "s^{-1}"), ("kWh", "kW h"), ("rpm", "rev/min"), ("psi", "lb/in^2"),
        ("m/s/s", "m/s^2"), ("J/mol K", "J/(mol K)"),
    ],
)  # fmt: skip
def test_units_are_products_of_others(words: str, same: str) -> None:
    assert measure_of(flattened(words)) == measure_of(flattened(same)) is not None


@pytest.mark.parametrize("words", ["", "per", "square", "apples", "m x", "73", "/", "K", "MM", "m per", "^2"])
def test_other_words_have_no_measure(words: str) -> None:
    assert measure_of(flattened(words)) is None


@pytest.mark.parametrize("text", ["\\text{a}" * 240, "m " * 900, "\\mathrm{m}/" * 170, "5 " + "m/" * 900])
def test_a_long_row_of_units_takes_no_time(text: str) -> None:
    assert math.equal("7", text) is False
