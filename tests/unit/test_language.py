"""Language consistency counts words by clause; numbers, formulae and code are no words; nothing hides in odd signs."""

import time
from itertools import permutations

import pytest

from r1flow.core.language import LANGUAGES, clauses, consistency, tokens

EUROPEAN = ("en", "de", "fr", "es")

# Twenty sentences a language, as a chain of thought has them; those of one number say the same.
SENTENCES = {
    "en": """First we add the two numbers, then we take away what is left.
So the answer is smaller than I expected.
Let me check this again before I go on.
A train leaves the station at noon and arrives three hours later.
Wait, that cannot be right because the sum is odd.
Each child gets the same number of apples.
We need to find the smallest number that works.
If the price falls by a quarter, she saves ten dollars.
The area of the square is equal to the area of the circle.
Now both sides are divided by the same factor.
This leaves only two possible cases.
In the first case there is no solution.
He buys three books and pays with a large note.
The remaining water is poured into the smaller bucket.
Since all angles are equal, the triangle is regular.
I made a mistake in the second step.
The speed is the distance divided by the time.
Half of the students walk to school every day.
That means the letter must stand in the middle.
Therefore the statement is true for every even number.""",
    "de": """Zuerst addieren wir die beiden Zahlen, dann ziehen wir den Rest ab.
Also ist die Antwort kleiner, als ich erwartet habe.
Das prüfe ich lieber noch einmal, bevor ich weitermache.
Ein Zug fährt mittags ab und kommt drei Stunden später an.
Moment, das kann nicht stimmen, weil die Summe ungerade ist.
Jedes Kind bekommt gleich viele Äpfel.
Wir müssen die kleinste Zahl finden, die passt.
Wenn der Preis um ein Viertel sinkt, spart sie zehn Euro.
Die Fläche des Quadrats ist gleich der Fläche des Kreises.
Nun werden beide Seiten durch denselben Faktor geteilt.
Damit bleiben nur zwei mögliche Fälle.
Im ersten Fall gibt es keine Lösung.
Er kauft drei Bücher und bezahlt mit einem großen Schein.
Das restliche Wasser wird in den kleineren Eimer gegossen.
Weil alle Winkel gleich sind, ist das Dreieck regelmäßig.
Im zweiten Schritt habe ich einen Fehler gemacht.
Die Geschwindigkeit ist der Weg geteilt durch die Zeit.
Die Hälfte der Schüler geht jeden Tag zu Fuß zur Schule.
Das heißt, der Buchstabe muss in der Mitte stehen.
Deshalb gilt die Aussage für jede gerade Zahl.""",
    "fr": """D'abord nous ajoutons les deux nombres, ensuite nous enlevons le reste.
La réponse est donc plus petite que je ne le pensais.
Je vais vérifier cela encore une fois avant de continuer.
Un train part de la gare à midi et arrive trois heures plus tard.
Attends, cela ne peut pas être juste parce que la somme est impaire.
Chaque enfant reçoit le même nombre de pommes.
Il faut trouver le plus petit nombre qui convient.
Si le prix baisse d'un quart, elle économise dix euros.
L'aire du carré est égale à l'aire du cercle.
Maintenant les deux côtés sont divisés par le même facteur.
Il ne reste alors que deux cas possibles.
Dans le premier cas il n'y a pas de solution.
Il achète trois livres et paie avec un gros billet.
L'eau qui reste est versée dans le petit seau.
Comme tous les angles sont égaux, le triangle est régulier.
J'ai fait une erreur dans la deuxième étape.
La vitesse est la distance divisée par le temps.
La moitié des élèves vont à pied à l'école tous les jours.
Cela veut dire que la lettre doit être au milieu.
L'affirmation est donc vraie pour tout nombre pair.""",
    "es": """Primero sumamos los dos números, después quitamos lo que queda.
Así que la respuesta es menor de lo que esperaba.
Voy a comprobarlo otra vez antes de seguir.
Un tren sale de la estación al mediodía y llega tres horas más tarde.
Espera, eso no puede ser correcto porque la suma es impar.
Cada niño recibe el mismo número de manzanas.
Tenemos que encontrar el número más pequeño que sirve.
Si el precio baja una cuarta parte, ella ahorra diez euros.
El área del cuadrado es igual al área del círculo.
Ahora se dividen los dos lados por el mismo factor.
Entonces solo quedan dos casos posibles.
En el primer caso no hay solución.
Compra tres libros y paga con un billete grande.
El agua que queda se echa en el cubo más pequeño.
Como todos los ángulos son iguales, el triángulo es regular.
Cometí un error en el segundo paso.
La velocidad es la distancia dividida por el tiempo.
La mitad de los alumnos va a la escuela andando todos los días.
Eso significa que la letra debe estar en el medio.
Por lo tanto la afirmación vale para todo número par.""",
    "zh": """首先我们把两个数相加，然后减去剩下的数。
所以答案比我想的要小。
在继续之前让我再检查一遍。
一列火车中午从车站出发，三个小时以后到达。
等等，这不可能是对的，因为和是奇数。
每个孩子得到一样多的苹果。
我们需要找到满足条件的最小的数。
如果价格下降四分之一，她就能省下十块钱。
正方形的面积等于圆的面积。
现在两边同时除以同一个因数。
这样就只剩下两种可能的情况。
在第一种情况下没有解。
他买了三本书，用一张大钞付款。
剩下的水倒进小一点的桶里。
因为所有的角都相等，所以这个三角形是正三角形。
我在第二步犯了一个错误。
速度就是路程除以时间。
一半的学生每天走路上学。
这说明这个字母一定在中间。
因此这个结论对每个偶数都成立。""",
    "ja": """まず二つの数を足して、それから残りを引きます。
だから答えは思ったより小さいです。
先に進む前に、もう一度確かめてみましょう。
電車は正午に駅を出て、三時間後に着きます。
待って、合計が奇数なので、これは正しくないはずです。
どの子供も同じ数のりんごをもらいます。
条件に合う一番小さい数を見つける必要があります。
値段が四分の一下がると、彼女は十ドル節約できます。
正方形の面積は円の面積と等しいです。
ここで両辺を同じ数で割ります。
すると残るのは二つの場合だけです。
最初の場合には解がありません。
彼は本を三冊買って、大きな札で払います。
残った水は小さいほうのバケツに入れます。
すべての角が等しいので、この三角形は正三角形です。
二番目の手順で間違えました。
速さは道のりを時間で割ったものです。
生徒の半分は毎日歩いて学校に行きます。
つまり、その文字は真ん中にあるはずです。
したがって、この主張はすべての偶数について成り立ちます。""",
    "ru": """Сначала мы складываем два числа, затем вычитаем остаток.
Значит, ответ меньше, чем я ожидал.
Проверю это ещё раз, прежде чем идти дальше.
Поезд выходит со станции в полдень и приходит через три часа.
Подожди, это не может быть верно, потому что сумма нечётная.
Каждый ребёнок получает одинаковое число яблок.
Нужно найти самое маленькое число, которое подходит.
Если цена упадёт на четверть, она сэкономит десять рублей.
Площадь квадрата равна площади круга.
Теперь обе части делятся на один и тот же множитель.
Остаются только два возможных случая.
В первом случае решения нет.
Он покупает три книги и платит крупной купюрой.
Оставшуюся воду наливают в маленькое ведро.
Так как все углы равны, треугольник правильный.
На втором шаге я сделал ошибку.
Скорость есть путь, делённый на время.
Половина учеников каждый день ходит в школу пешком.
Это значит, что буква должна стоять в середине.
Поэтому утверждение верно для любого чётного числа.""",
}
LISTED = {language: text.split("\n") for language, text in SENTENCES.items()}


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_of_one_language_are_in_it(language: str) -> None:
    shares = [consistency(sentence, language, LANGUAGES) for sentence in LISTED[language]]
    assert len(shares) >= 20
    assert sum(shares) / len(shares) >= 0.98
    assert consistency(SENTENCES[language], language, LANGUAGES) >= 0.98


@pytest.mark.parametrize(("language", "target"), list(permutations(LANGUAGES, 2)))
def test_sentences_of_another_language_are_not(language: str, target: str) -> None:
    assert consistency(SENTENCES[language], target, LANGUAGES) <= 0.02


@pytest.mark.parametrize(("first", "second"), list(permutations(LANGUAGES, 2)))
def test_two_languages_by_turns_are_about_half_each(first: str, second: str) -> None:
    text = "\n".join(f"{one}\n{other}" for one, other in zip(LISTED[first], LISTED[second], strict=True))
    assert consistency(text, first, LANGUAGES) + consistency(text, second, LANGUAGES) >= 0.97
    assert 0.35 < consistency(text, first, LANGUAGES) < 0.65  # a Chinese or Japanese word counts like an English one


def test_words_of_chinese_and_japanese_count_like_english_ones() -> None:
    words = {language: sum(count for *_, count in clauses(text)) for language, text in SENTENCES.items()}
    assert 0.8 < words["zh"] / words["en"] < 1.2
    assert 0.8 < words["ja"] / words["en"] < 1.5


def test_shares_are_weighted_by_words() -> None:
    assert consistency("we start with 8 + 16 = 24. dann ist 24 - 19 = 5.", "en", ("en", "de")) == 0.6


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "8 + 16 = 24",
        "a + b = c, x",
        "3x + 2y = z",
        "α β Δx",
        "$a \\cdot b$",
        "$$\\text{sum} = a$$",
        "\\[ \\text{sum} \\] \\( sum \\)",
        "\\frac{1}{2} \\boxed{5} \\begin{align*} x &= 5 \\end{align*}",
        "```python\nprint('hello')\n```",
        "?!.,",
        "\u200b\u200b",
    ],
)
def test_no_words_is_not_applicable(text: str) -> None:
    assert consistency(text, "en", LANGUAGES) is None


def test_code_formulae_and_tags_do_not_count() -> None:
    text = (
        "dann ist `the answer is here` und $the+sum$ <think>das ist</think> ```we start with the number``` das Ergebnis"
    )
    assert consistency(text, "de", ("en", "de")) == 1.0


def test_variables_do_not_count_and_words_of_one_letter_do() -> None:
    assert consistency("x, y. dann ist n das Ergebnis", "de", LANGUAGES) == 1.0
    assert sum(count for *_, count in clauses("I know that x is a number")) == 6
    assert sum(count for *_, count in clauses("мы в школе и я")) == 5


def test_money_is_no_formula() -> None:
    assert consistency("it costs $5 und das ist ein Preis von $6", "en", ("en", "de")) < 0.5


def test_another_script_in_the_same_clause_counts() -> None:
    assert consistency("the answer Привет мир", "en", LANGUAGES) == 0.5
    assert consistency("Привет", "en", ("en", "de")) == 0.0
    assert consistency("हिन्दी में उत्तर", "en", LANGUAGES) == consistency("คำตอบคือ", "en", LANGUAGES) == 0.0


def test_a_kana_does_not_make_chinese_japanese() -> None:
    assert consistency("首先我们把两个数の相加然后减去剩下的数", "ja", LANGUAGES) == 0.0


def test_kanji_alone_in_a_japanese_sentence_are_japanese() -> None:
    assert consistency("合計、それは三つの数を足したものです。", "ja", LANGUAGES) == 1.0
    for stop in "。、":
        text = f"これは三つの数の合計です{stop}首先我们把两个数相加然后减去剩下的数。"
        assert 0.3 < consistency(text, "ja", LANGUAGES) < 0.7


@pytest.mark.parametrize(
    "disguise",
    [
        str.upper,
        lambda text: "\u200b".join(text),  # zero width
        lambda text: "\u00ad".join(text),
        lambda text: text.replace("e", "e\u0335"),  # struck through
        lambda text: "\x00".join(text),
        lambda text: "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in text),  # full width
        lambda text: text.replace(" ", "\ud800 "),
    ],
)
def test_a_disguise_changes_nothing(disguise) -> None:
    assert consistency(disguise(SENTENCES["de"]), "en", LANGUAGES) <= 0.02
    assert consistency(disguise(SENTENCES["en"]), "en", LANGUAGES) >= 0.97


def test_words_spelt_out_letter_by_letter_count() -> None:
    spelt = " ".join(SENTENCES["de"].replace(" ", ""))
    assert consistency(f"we add these. {spelt}", "en", LANGUAGES) < 0.4


def test_look_alike_letters_are_in_no_language() -> None:
    look_alike = str.maketrans("асеоу", "aceoy")  # Cyrillic to Latin
    assert consistency(SENTENCES["ru"].translate(look_alike), "en", LANGUAGES) <= 0.02
    assert consistency("the аnswеr", "en", LANGUAGES) == 0.5


def test_transliterated_english_is_not_english() -> None:
    assert consistency("зе ансвер из файв", "en", LANGUAGES) == 0.0


def test_long_clauses_of_languages_outside_the_candidates_are_in_none() -> None:
    italian = "per prima cosa sommiamo i due numeri e poi togliamo quello che resta del primo"
    assert consistency(italian, "en", LANGUAGES) == consistency(italian, "es", LANGUAGES) == 0.0
    assert consistency(SENTENCES["fr"], "en", ("en", "de")) < 0.3


def test_switching_within_a_long_clause_is_seen() -> None:
    text = "first we add the two large numbers and then ziehen wir den ganzen Rest wieder von der Summe ab"
    assert 0.3 < consistency(text, "en", LANGUAGES) < 0.7


def test_a_foreign_sentence_with_numbers_between_its_words_stays_foreign() -> None:
    text = "zuerst 8 werden 7 beide 5 Zahlen 9 zusammengezählt 2 danach 4 wird 1 wieder 3 abgezogen"
    assert consistency(text, "en", ("en", "de")) <= 0.25


def test_order_of_candidates_and_repetition_do_not_matter() -> None:
    texts = [*SENTENCES.values(), "so", "also", "ok", "plus minus", "a"]
    first = [consistency(text, "en", ("en", "de", "fr")) for text in texts]
    assert first == [consistency(text, "en", ("fr", "de", "en")) for text in texts]


def test_tokens_are_words_and_numbers_without_case_and_signs() -> None:
    assert tokens("So, 8 + 16 = 24: SO!") == ["so", "8", "16", "24", "so"]
    assert tokens("首先我们检查答案") == ["首先", "我们", "检查", "答案"]


HOSTILE = [
    "a",
    "the ",
    "7",
    "```",
    "$",
    "$a",
    "<",
    "<a",
    "'",
    "a-",
    "\\(",
    "\\[ ",
    "\\",
    "\\begin{",
    "a,",
    "- ",
    "\n",
    "a ",
]
HOSTILE += ["我们把", "まず二つの数を", "a\u200b", "\u0301\u0327", "a\u0301\u0327", "\ufdfa", "\ud800a", "aа", "\x00"]


@pytest.mark.parametrize("unit", HOSTILE)
def test_cost_grows_with_the_length_of_the_text_and_no_faster(unit: str) -> None:
    """1 MB, or 300,000 signs of several bytes, which quadratic time would make minutes of."""
    text = unit * (300_000 // len(unit) if not unit.isascii() else 1_000_000 // len(unit))
    begin = time.process_time()
    share = consistency(text, "en", LANGUAGES)
    assert share is None or 0 <= share <= 1
    assert time.process_time() - begin < 30
