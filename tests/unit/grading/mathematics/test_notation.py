"""What may stand on the left of an equals sign; answers that are words, and words around them."""

import pytest

from sage_cli.grading.mathematics.names import is_name, is_quantity, is_symbol
from sage_cli.grading.mathematics.notation import STEPS, normalise

SYMBOLS = ["x", "x_1", "a_{37}", "f(3)", "AB", "y'", r"\alpha", r"\angle ABC", r"\sin A"]
QUANTITIES = [
    "|AB|", "A:B", "S_{1}:S_{2}", r"\frac{a}{b}", "P(X=2)", "P(A|B)", "AB/CD",
    r"\overline{AB}", r"\text{area}", r"|\vec{v}|",
]  # fmt: skip
COMPUTED = ["m+n", "a-b"]
NEITHER = ["", "27", "x+1", "2x", "x<2", "x^2", r"\sqrt{4}"]
NEGATED = [r"x\not", r"\neg x", "not x", r"\text{not}x"]


@pytest.mark.parametrize(("texts", "symbol", "quantity", "name"), [
    (SYMBOLS, True, True, True), (QUANTITIES, False, True, None), (COMPUTED, False, False, True),
    (NEITHER, False, False, False), (NEGATED, False, False, False),
])  # fmt: skip
def test_each_form_is_told_apart(texts, symbol, quantity, name):
    for text in map(normalise, texts):
        assert (is_symbol(text), is_quantity(text)) == (symbol, quantity), text
        assert name is None or is_name(text) is name, text


@pytest.mark.timeout(10)
@pytest.mark.parametrize(("text", "quantity", "name"), [
    (r"\beta" * 300 + "1", False, False), (f"f({'1' * 900}!)", True, False),
    (f"P({'ab' * 900}|X)", True, True),
])  # fmt: skip
def test_no_form_takes_long_to_tell(text, quantity, name):
    assert (is_symbol(text), is_quantity(text), is_name(text)) == (False, quantity, name)


CASES = [
    ("Yes", ["yes", r"\text{Yes}", r"\textbf{YES}", "Yes.", "`Yes`", "\"yes\"", "Yes!",
     "The answer is yes"], ["No", "sey", "Yes or no", "not yes", "yes and no"]),
    ("no", ["No", r"\text{no}"], ["on", "yes", "o n o", "No, yes", "none"]),
    ("True", ["true", r"\text{True}", "TRUE", "The statement is true"], ["False", "not true", "rue",
     "untrue", "The statement is not true"]),
    ("listen", ["Listen"], ["silent", "enlist"]),
    ("east", [r"\text{East}", "the east"], ["seat", "west", "eats"]),
    ("HTH", ["H T H", r"\text{HTH}", "hth"], ["HHT", "H^2T", "THH"]),
    ("ACB", ["ACB"], ["ABC", "BAC"]),
    ("AB", ["AB"], ["BA"]),
    ("1A2B", ["1A2B"], ["2B1A", "2AB", "1B2A"]),
    ("H2O", ["H_2O", r"\text{H}_2\text{O}"], ["O2H", "HO2", "2HO"]),
    ("xy", ["yx", r"x \cdot y"], ["x", "xyy"]),
    ("mgh", ["hmg"], ["mg"]),
    ("elephant", ["The elephant", "an elephant", "It is an elephant."], ["elephants or lions",
     "no elephant", "ant", "It is not an elephant"]),
    ("hyperbola", [r"\text{a hyperbola}", "The curve is a hyperbola"], ["ellipse",
     r"\text{not a hyperbola}", "The curve isn't a hyperbola", "an ellipse"]),
    (r"\text{odd}", ["odd", "The function is odd", "It's odd"],
     ["The function is neither odd nor even", "even", "The function is not odd", "odd or even"]),
    (r"\text{Clara}", ["Clara", "clara", "Clara is the tallest"], ["Carla", "not Clara",
     "Clara is not the tallest", "Clara or Dora", "Dora is taller"]),
    ("no solution", [r"\text{no solution}", "No solution."], ["solution", "one solution"]),
    ("Monday", [r"\text{Monday}", "It is a Monday"], ["Sunday", "the day before Monday"]),
    ("new york", ["New York", r"\text{New York}"], ["York", "New Jersey"]),
    (r"\angle ABC", [r"\angle ABC", r"\angle CBA", "∠ABC"], [r"\angle BAC"]),
    ("<", ["<", r"\lt", "$<$"], [">", "=", "2", "<=", "a"]),
    ("=", ["="], ["<", "0"]),
    ("B", ["(B)", "B)", "B.", "option B", "Option (B)", "choice B", "The answer is B",
     "The correct answer is (B)", "(B) 12", "B) 12", "B. 12", "B: 12", r"\text{(B) }12",
     r"\textbf{(B)}\ 12", r"\textbf{(B) } 12", r"\mathrm{(B)}\ \frac{1}{2}", "(B) the cat", "**B**",
     "`B`", "Answer: B"], ["A", "b", "(A) 12", "(B) or (C)", "(B) 12, (C) 13", "not B",
     "B is wrong", "(B) is wrong", "(A) B", "A. B", "option A or B", "neither B", "(A) 12 (B) 13",
     "AB", "B+C", "B^2", "B 12", "The answer is not B", "The wrong option is B", "B/C", "all but B",
     "BB"]),
    ("27", ["twenty-seven", "twenty seven", r"\text{twenty-seven}", "Twenty-Seven apples",
     "There are exactly 27 ways", "There are a total of 27 ways", "She has 27 apples left",
     "Janet makes $27 every day", "27 a day", "27 positive integers", "<div>27</div>", "*27*",
     "__27__", "27 ✓", r"\Rightarrow 27", "∴ 27", "Answer:\n27", "27 (units)", "27 apples per day",
     "The cost is $27", "The answer is 27", "the final answer is: 27.", "Answer: 27",
     "final answer: 27", "Total: 27", "The total number of ways is 27", "#### 27", "= 27",
     "x is 27", "Therefore, x = 27.", "So the answer is 27", "There are 27 ways.", "There are 27",
     "Thus 27", "`27`", "```\n27\n```", "```json\n{\"answer\": 27}\n```", "{\"answer\": \"27\"}",
     "{'answer': 27}", "\"27\"", "'27'", "“27”", "<b>27</b>", "<strong>27</strong>", "&nbsp;27",
     r"The answer is $\boxed{27}$.", "27 is the answer", "It is 27", "The answer is 27 apples",
     "27 (since 3 * 9 = 27)", "**Answer:** 27", "The answer is x = 27", "27 &nbsp;"], ["twenty",
     "seventy-two", "twenty-seven thousand", "twenty-eight", "twentyseventh", "twenty-seventh",
     "twenty, seven", "two seven", r"27\text{ billions}", r"27\text{ tenths}",
     r"27\text{ hundredths}", r"27\text{ pairs}", r"27\text{ negative}", r"27\text{ below zero}",
     r"27\text{ remainder two}", r"27\text{ factorial}", r"27\text{ lakh}", r"27\text{ lakhs}",
     "27 dozen", "27 dozens", "27 hundreds", "27 tens", "27 ones", "27 trillions", "27 thirds",
     "27 fifths", "27 percent", "27 squared", "27 cubed", "27 doubled", "27 tripled", "27 halved",
     "27 times two", "27 plus one", "27 minus one", "27 over two", "27 mod 5", "27 modulo five",
     "27 to the power of two", "27 raised to two", "27 wrong", "27 false", "27 is false",
     "27 is incorrect", "27 is not the answer", "27 isn't right", "27 not", "27 or", "27?",
     "27 maybe", "maybe 27", "27 probably", "not equal to 27", "is not 27", "the answer isn't 27",
     "The answer is not 27", "The answer cannot be 27", "anything but 27", "27 (no)", "27 (not)",
     "27 rejected", "27 more", "27 less than", "27 more than that", "27 in base 8", "27 base eight",
     "27 in octal", "27 in hex", "27 hex", "27 in binary", "27 in hexadecimal", "27 inverse",
     "the inverse of 27", "27 negated", "negative 27", "minus 27", "27 below", "27 above",
     "27 under par", "27 ago", "27 squared units squared", "27 to 1", "27 out of 100", "27 in 100",
     "27 per hundred", "27 per cent", "27 per mille", "27 per thousand", "27 ppm", "27 bps",
     "27 basis points", "27 k", "27k", "27K", "27M", "27B", "27 bn", "27 mil", "27 grand", "27 e",
     "27e1", "27 e 3", "27 i", "27j", "27 x", "27y", "27 pi", "27π", "27 factorials", "27!",
     "27 choose 2", "27C2", "27 permute 2", "27 log", "27 sin", "27 squared root", "root 27",
     "square root of 27", "cube root of 27", "the cube of 27", "twice 27", "double 27", "half 27",
     "one less than 27", "27 - 1", "the 27th", "27nd", "27st", "x27", "a27", "27a", "27b",
     "Option 27", "27 of 30", "27 and a half", "27 1/2", "two hundred and seven",
     "twenty seven hundred", "27.5", "The answer is 28", "28 is the answer",
     "The wrong answer is 27", "27 is the wrong answer", "The sum is not 27", "Neither 27 nor 28",
     "26 or 27", "26, 27", "26 to 27", "26-28", "between 26 and 28", "less than 27", "at least 27",
     "at most 27", "more than 27", "> 27", "≥ 27", "27 or more", "27+", "27 give or take", "27 ± 1",
     "27±0", "around 27", "I guess 27", "guess: 27", "not: 27", "Incorrect: 27", "False answer: 27",
     "Question 27", "Step 27: 5", "27: 5", "28 = 27", "0 = 27", "1 is 27", "2 is 27",
     "{\"answer\": 28}", "{\"answer\": [27]}", "{\"answer\": 27, \"other\": 28}", "{\"wrong\": 27}",
     "<b>28</b>27", "<sup>27</sup>", "<sub>27</sub>", "<sup>2</sup>7", "2<sup>7</sup>", "'2''7'",
     "\"2\" \"7\"", "`2` `7`", "2 7", "2,7", "2.7", "27,0", "27.000,1", "0,27", r"27\text{ but no}",
     r"27\text{ unless zero}", r"27\text{ if }x>0", "If x is 27", "x isn't 27", "x was not 27",
     "has 27 fewer", "She has not 27", "He has 27 more than 3", "There are not 27",
     "There are no 27", "There are 27 fewer than 30", "there are 2 more than 27",
     "27 ways less one", "27 pairs of two", "27 half", "27 halves", "27 quarters", "27 and 28",
     "27\n28", "Answer: 26\n27", "27\nAnswer: 26", "*27* 28", "*2*7", "_2_7", "The answer isn't 27",
     "Wrong: 27", "27 is wrong", "The answer is 26 or 27", "The answer is 26, 27",
     "The answer is 27 or 28", "There are 27 thousands", "There are not 27 ways",
     "It is less than 27", "The opposite of the answer is 27", "The answer is twice 27",
     "Never: 27", "The answer in dozens is 27", "{\"not\": 27, \"answer\": 28}",
     "{\"answer\": [26, 27]}", "`26` `27`", "28 (since 27 + 1)", "28 (27)", "27 (not 28)",
     "27 (wrong)", "<b>2</b>7 or 28", "I don't know, maybe 27", "There is no 27",
     "The answer is 27%", "26 < x < 28", "x > 27", "The answer could be 27", "half of 27",
     "The answer is between 26 and 28", "The answer is 27 more than 3"]),
    ("0", ["zero", "Zero"], ["one", "nothing less"]),
    ("-3", ["negative 3", "minus three", "negative three"], ["three", "not negative 3"]),
    ("112", ["one hundred twelve", "One hundred twelve ways"], ["one hundred", "112 hundred"]),
    (r"\text{two}", ["2", "two", "Two"], ["3", "twice", "twenty"]),
    ("5000", ["5 thousand", "five thousand", r"5\text{ thousand}", "5 thousand dollars"], ["5",
     "5 million", "5 hundred", "5 thousands of thousands"]),
    ("1.2 million", ["1,200,000", "1.2e6", "1.2 million dollars"], ["1.2", "1.2 billion"]),
    ("2.74", ["2,74", "2,74 $", "2{,}74"], ["2, 74", "2.75", "27,4", "2,7,4", "(2,74)"]),
    ("0.125", ["0,125"], ["1,25", "0, 125"]),
    ("1234.5", ["1.234,5", "1,234.5", "1'234.5"], ["1.234,6", "1234,05", "1,2345"]),
    ("3", [], ["3,0", "3, 0", "0,3"]),
    ("1,5", ["5, 1"], ["1.5"]),
    ("1000000", ["1'000'000"], ["1'000'00", "1'000"]),
    ("20:34", ["20:34:00", "8:34 p.m.", r"08:34 \text{ P.M.}", "8:34pm"], ["8:34", "8:34 a.m.",
     "20:43", "20:34:01", "2034", r"\frac{20}{34}"]),
    ("12:00", ["12 noon", "noon", "12:00 p.m."], ["midnight", "1:00", "24:00", "12"]),
    ("4:30 PM", [r"4:30 \text{ p.m.}", "4:30 p.m.", "16:30", "04:30 pm"], ["4:30 a.m.", "4:03 p.m.",
     "430"]),
    ("9:15", ["9:15", "9:15 a.m."], ["9:51"]),
    ("2021-03-04", [], ["2021-3-5"]),
    ("1/2/2020", ["1/2/2020"], ["1/2020/2"]),
    (r"\text{May } 17", ["May 17", r"\text{May 17}"], ["May 71", "June 17", "17"]),
    ("1987", ["the year 1987", "in the year 1987"], ["the year 1978", "the year before 1987"]),
    ("x=5", ["x is 5", "Therefore x = 5", "The answer is x=5"], ["y is 5", "x isn't 5"]),
    (r"5\sqrt{2}", [r"5\sqrt{2} \text{ (about } 7.07)", r"The answer is $5\sqrt2$"],
     [r"5\sqrt{3} \text{ (about } 7.07)", r"7.07 \text{ (about } 5\sqrt{2})"]),
    ("10^{3}", ["10<sup>3</sup>"], ["10<sup>2</sup>", "103"]),
    ("x < 5", ["x &lt; 5"], ["x &gt; 5"]),
    ("ABD", ["A, B, D", "A B D", "A and B and D"], ["ABC", "BAD", "A, B"]),
    ("7:45", ["7:45 a.m.", r"\text{7:45}"], ["7.75", "7:54"]),
    ("3:10", ["6:20", "3/10"], ["10:3"]),
    ("£15", ["15 pounds", "15", "£15.00"], [r"\$15", "15 euros", "15 pence", "€15"]),
    ("€20", ["20 euros", "20€", "20"], [r"\$20", "20 dollars", "£20", "21"]),
    ("¥300", ["300 yen"], [r"\$300", "₹300"]),
    ("60 kN", [r"60\text{ kN}", "60 kilonewtons"], ["60 N", r"60\text{ MN}", "60 kg"]),
    (r"3\text{ ms}", ["3 milliseconds", "3"], ["3 s", r"3\text{ s}", r"3\mu\text{s}"]),
    ("red, blue", ["blue, red", "Red and Blue", r"\text{red}, \text{blue}"], ["red", "red, green"]),
    ("x^2", ["The answer is x^2", r"x^2\text{ cm}^2"], [r"x^2\text{ is wrong}", "not x^2",
     "x^2 (wrong)"]),
    ("1.2", ["1.2''", r"1.2\text{ arcseconds}", r"1.2^{\prime\prime}"], ["1.3''"]),
    ("258", [r"258\,\mu\mathrm{m}", "258 μm", r"258 \AA", "258 {~m}", "258 s^{-1}", "258 bits/s",
     r"258[\mathrm{~F}]", "258 J", r"258 {}^{\circ}\mathrm{C}"], [r"258\mu", "258 x", "258 μ",
     "285 μm"]),
    (r"90^\circ", [r"\boxed{90^\circ}", r"$\boxed{90^\circ}$.", r"{90^\circ}", "90^o",
     "90 degrees"], [r"9^\circ", r"90\text{ rad}"]),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "right", "wrong"), CASES)
def test_words_are_paid_until_one_changes_the_answer(grader, gold, right, wrong):
    answers = [gold, *right, *wrong]
    grades = grader.grade_many((gold, f"<SOLUTION>{answer}</SOLUTION>") for answer in answers)
    assert {grade.status for grade in grades} <= {"right", "wrong", "unparseable"}
    paid = [a for a, grade in zip(answers, grades, strict=True) if grade.status == "right"]
    assert paid == [gold, *right]


def test_a_step_without_its_mark_changes_nothing():
    texts = [
        "27", r"\frac{1}{2}", "x^2 - 1, 3", "(1,2] or 5", r"\text{Tuesday}", "2 hours 30 minutes",
        "1 000", r"\sqrt 2 \approx 1.4", "it's 3", r"\begin{cases}x\\y\end{cases}", "a\nb", "dy/dx",
    ]  # fmt: skip
    for step in STEPS:
        unmarked = [text for text in texts if step.mark not in text]
        assert [step.apply(text) for text in unmarked] == unmarked, step.name
    assert len({step.name for step in STEPS}) == len(STEPS)
