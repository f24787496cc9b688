"""Invented documents, with facts that they state and facts that none states: the same for the same seed and family.

Every attribute has a sentence and a question in the sentence's words for each of two families of wordings, and one question in
other words. Rules are adjusted on family A; family B shows how well they do on wordings that were not looked at.
"""
import random

# Name of an attribute: (kind of value, sentence A, question A, sentence B, question B, question in other words). {n}: the thing's
# name; {s}: its name, or a word for it; {v}: the value.
TOWN = {
    "population": ("people", "{s} has {v} inhabitants.", "How many inhabitants does {n} have?",
                   "The population of {n} was {v} at the last count.", "What was the population of {n} at the last count?",
                   "How many people live in {n}?"),
    "founded": ("year", "{s} was founded in {v} by salt traders.", "When was {n} founded?",
                "The charter of {n} dates from {v}.", "From what year does the charter of {n} date?", "How old is the town of {n}?"),
    "mayor": ("person", "The mayor of {n} is {v}.", "Who is the mayor of {n}?",
              "{v} has been mayor of {n} since the last election.", "Who has been mayor of {n} since the last election?",
              "Who governs {n}?"),
    "river": ("place", "{s} lies on the river {v}.", "On which river does {n} lie?",
              "The river {v} flows through {n}.", "Which river flows through {n}?", "What water runs through {n}?"),
    "bridge": ("year", "Its stone bridge was built in {v}.", "When was the stone bridge of {n} built?",
               "The stone bridge, finished in {v}, joins both banks.", "When was the stone bridge of {n} finished?",
               "How old is {n}'s bridge of stone?"),
    "tower": ("metres", "The clock tower is {v} metres high.", "How high is the clock tower of {n}?",
              "The clock tower rises {v} metres above the square.", "How many metres does the clock tower of {n} rise above the square?",
              "What is the height of the tower with the clock in {n}?"),
    "market": ("weekday", "The market takes place every {v}.", "On which day does the market of {n} take place?",
               "Traders set up the market of {n} each {v}.", "When do traders set up the market of {n}?",
               "Which day of the week is market day in {n}?"),
    "doors": ("colour", "The doors of the town hall are painted {v}.", "What colour are the doors of the town hall of {n} painted?",
              "A coat of {v} paint covers the doors of the town hall.", "Which colour of paint covers the doors of the town hall of {n}?",
              "In which colour is the entrance of {n}'s town hall?"),
}
COMPANY = {
    "founder": ("person", "{n} was founded by {v}.", "Who founded {n}?", "{v} started {n} in a rented shed.",
                "Who started {n} in a rented shed?", "Who set up {n}?"),
    "staff": ("people", "{s} employs {v} people.", "How many people does {n} employ?",
              "There are {v} employees on the payroll.", "How many employees are on the payroll of {n}?", "How large is the staff of {n}?"),
    "product": ("thing", "{s} makes {v}.", "What does {n} make?", "Its best known product is {v}.",
                "What is the best known product of {n}?", "Which goods come from {n}?"),
    "seat": ("place", "{s} has its seat in {v}.", "Where does {n} have its seat?",
             "The headquarters of {n} are in {v}.", "Where are the headquarters of {n}?", "Where is {n} based?"),
    "turnover": ("money", "The turnover last year was {v} crowns.", "What was the turnover of {n} last year?",
                 "Last year {n} sold goods for {v} crowns.", "For how many crowns did {n} sell goods last year?",
                 "How much did {n} earn last year?"),
    "director": ("person", "The director is {v}.", "Who is the director of {n}?", "{v} manages {n}.", "Who manages {n}?",
                 "Who is in charge of {n}?"),
    "fire": ("year", "A fire destroyed the main workshop in {v}.", "When did a fire destroy the main workshop of {n}?",
             "In {v} the main workshop burned to the ground.", "In which year did the main workshop of {n} burn to the ground?",
             "When did the workshop of {n} go up in flames?"),
    "van": ("colour", "Its delivery vans are {v}.", "What colour are the delivery vans of {n}?",
            "Everybody knows the {v} delivery vans of {n}.", "What is the colour of the delivery vans of {n}?",
            "In which colour are {n}'s cars?"),
}
MACHINE = {
    "weight": ("kilograms", "{s} weighs {v} kilograms.", "How much does {n} weigh?",
               "The weight of {n} is {v} kilograms.", "What is the weight of {n}?", "How heavy is {n}?"),
    "inventor": ("person", "{s} was invented by {v}.", "Who invented {n}?", "The inventor of {n} was {v}.",
                 "Who was the inventor of {n}?", "Who came up with {n}?"),
    "fuel": ("fuel", "{s} runs on {v}.", "What does {n} run on?", "The fuel of {n} is {v}.", "What is the fuel of {n}?",
             "What drives {n}?"),
    "speed": ("number", "Its drum turns {v} times a minute.", "How many times a minute does the drum of {n} turn?",
              "The speed of the drum is {v} turns a minute.", "What is the speed of the drum of {n}?", "How fast does the drum of {n} go?"),
    "price": ("money", "A new one costs {v} crowns.", "How much does a new {m} cost?", "The price of {n} is {v} crowns.",
              "What is the price of {n}?", "What must one pay for {n}?"),
    "oil": ("frequency", "The bearings must be oiled {v}.", "How often must the bearings of {n} be oiled?",
            "Oil the bearings {v}.", "How often should one oil the bearings of {n}?", "How frequently do the bearings of {n} need grease?"),
    "cover": ("colour", "The cover of the motor is {v}.", "What colour is the cover of the motor of {n}?",
              "A {v} cover protects the motor.", "What colour is the cover that protects the motor of {n}?",
              "What does the hood of {n} look like?"),
    "museum": ("place", "The first {m} stands in a museum in {v}.", "Where does the first {m} stand?",
               "The prototype of {n} is kept in {v}.", "Where is the prototype of {n} kept?", "Where can one see the oldest {m}?"),
}
PERSON = {
    "born": ("year", "{n} was born in {v}.", "When was {n} born?", "The year of birth of {n} is {v}.",
             "What is the year of birth of {n}?", "How old is {n}?"),
    "birthplace": ("place", "{p} grew up in {v}.", "Where did {n} grow up?", "{p} spent a childhood in {v}.",
                   "Where did {n} spend a childhood?", "Where does {n} come from?"),
    "teacher": ("person", "{p} learned the trade from {v}.", "From whom did {n} learn the trade?",
                "The teacher of {n} was {v}.", "Who was the teacher of {n}?", "Who trained {n}?"),
    "instrument": ("instrument", "{p} plays the {v}.", "What does {n} play?", "In the evening {n} plays the {v}.",
                   "Which instrument does {n} play in the evening?", "Which musical talent does {n} have?"),
    "children": ("few", "{p} has {v} children.", "How many children does {n} have?", "The family of {n} has {v} children.",
                 "How many children does the family of {n} have?", "How large is the family of {n}?"),
    "prize": ("year", "{p} won the prize of the academy in {v}.", "When did {n} win the prize of the academy?",
              "The academy gave a prize to {n} in {v}.", "When did the academy give a prize to {n}?", "When was {n} honoured?"),
    "house": ("colour", "The house of {n} is {v}.", "What colour is the house of {n}?", "{p} lives in a {v} house.",
              "In what colour of house does {n} live?", "How is {n}'s home painted?"),
    "book": ("title", "{p} wrote a book called {v}.", "What is the name of the book that {n} wrote?",
             "The book {v} is a work of {n}.", "Which book is a work of {n}?", "What did {n} publish?"),
}
RECIPE = {
    "oven": ("number", "Bake it at {v} degrees.", "At how many degrees does one bake {n}?", "The oven must have {v} degrees.",
             "How many degrees must the oven have for {n}?", "How hot must the oven be for {n}?"),
    "time": ("minutes", "{s} bakes for {v} minutes.", "How long does {n} bake?", "After {v} minutes in the oven {n} is done.",
             "After how many minutes in the oven is {n} done?", "How long does {n} stay in the oven?"),
    "flour": ("number", "The dough needs {v} grams of flour.", "How many grams of flour does the dough of {n} need?",
              "Sift {v} grams of flour into a bowl.", "How much flour does one sift into a bowl for {n}?", "What quantity of flour goes into {n}?"),
    "spice": ("spice", "{s} is seasoned with {v}.", "What is {n} seasoned with?", "The spice of {n} is {v}.",
              "What is the spice of {n}?", "What gives {n} its taste?"),
    "eggs": ("few", "Beat {v} eggs with the sugar.", "How many eggs are beaten with the sugar for {n}?",
             "The batter takes {v} eggs.", "How many eggs does the batter of {n} take?", "How many eggs go into {n}?"),
    "cook": ("person", "{s} was first made by {v}.", "Who first made {n}?", "The recipe of {n} comes from {v}.",
             "From whom does the recipe of {n} come?", "Who thought of {n}?"),
    "day": ("weekday", "{s} is eaten on {v}.", "On which day is {n} eaten?", "Families serve {n} each {v}.",
            "When do families serve {n}?", "Which day is the day for {n}?"),
    "origin": ("place", "{s} comes from {v}.", "Where does {n} come from?", "The home of {n} is {v}.", "What is the home of {n}?",
               "In which region was {n} invented?"),
}
PLANT = {
    "height": ("metres", "{s} grows {v} metres tall.", "How tall does {n} grow?", "The height of {n} is {v} metres.",
               "What is the height of {n}?", "How high does {n} get?"),
    "flowers": ("colour", "Its flowers are {v}.", "What colour are the flowers of {n}?", "{n} bears {v} flowers.",
                "What colour of flowers does {n} bear?", "In which colour does {n} bloom?"),
    "bloom": ("month", "{s} blooms in {v}.", "When does {n} bloom?", "The buds of {n} open in {v}.",
              "In which month do the buds of {n} open?", "When can one see {n} in flower?"),
    "place": ("place", "{s} grows wild in {v}.", "Where does {n} grow wild?", "The wild form of {n} is found near {v}.",
              "Where is the wild form of {n} found?", "In which region is {n} native?"),
    "water": ("frequency", "{s} must be watered {v}.", "How often must {n} be watered?", "Give {n} water {v}.",
              "How often should one give {n} water?", "How frequently does {n} need a drink?"),
    "finder": ("person", "{s} was discovered by {v}.", "Who discovered {n}?", "The botanist {v} described {n}.",
               "Which botanist described {n}?", "Who was the first to see {n}?"),
    "leaves": ("few", "Each stem carries {v} leaves.", "How many leaves does each stem of {n} carry?",
               "There are {v} leaves on a stem of {n}.", "How many leaves are on a stem of {n}?", "How leafy is a stem of {n}?"),
    "use": ("use", "Its roots are used as {v}.", "What are the roots of {n} used as?", "People make {v} from the roots of {n}.",
            "What do people make from the roots of {n}?", "What are the roots of {n} good for?"),
}
KINDS = {"town": TOWN, "company": COMPANY, "machine": MACHINE, "person": PERSON, "recipe": RECIPE, "plant": PLANT}
WORDS_FOR = {"town": "The town", "company": "The company", "machine": "The machine", "person": "", "recipe": "The dish", "plant": "The plant"}
# What no document states of anything.
NEVER = {
    "town": ["Who designed the fountain of {n}?", "When was the theatre of {n} opened?", "How many schools does {n} have?",
             "What is the postcode of {n}?", "Where is the cemetery of {n}?"],
    "company": ["When did {n} open its first shop abroad?", "Who audits the accounts of {n}?", "How many ships does {n} own?",
                "What is the slogan of {n}?", "Which bank lent money to {n}?"],
    "machine": ["Who repaired {n}?", "How wide is the belt of {n}?", "When was {n} patented?", "What is the serial number of {n}?",
                "How many wheels does {n} have?"],
    "person": ["Who painted the portrait of {n}?", "When did {n} marry?", "What is the name of the dog of {n}?",
               "How many languages does {n} speak?", "Where is {n} buried?"],
    "recipe": ["What wine is served with {n}?", "How much butter does {n} need?", "Who won a prize with {n}?",
               "How many guests does {n} feed?", "When was {n} forbidden?"],
    "plant": ["Which insect eats {n}?", "How deep are the roots of {n}?", "What is the Latin name of {n}?",
              "When was {n} brought to Europe?", "How much does a seed of {n} weigh?"],
}
INTRODUCTIONS = {
    "town": "{n} is a small town with narrow streets.", "company": "{n} is a family business.", "machine": "{n} is a machine for small farms.",
    "person": "{n} is a craftsman known beyond the valley.", "recipe": "{n} is an old dish of the hills.", "plant": "{n} is a shrub with thin bark."}
ASIDES = ["Visitors praise the quiet evenings.", "Old letters mention it now and then.", "Not much else has been written about it.",
          "Photographs from that time are rare.", "Some of this was told by neighbours.", "The records are kept in a wooden chest."]

ONSETS = ["b", "br", "d", "dr", "f", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "qu", "r", "s", "st", "t", "tr", "v", "w", "z"]
VOWELS = ["a", "e", "i", "o", "u", "ai", "au", "ea"]
CODAS = ["l", "n", "r", "st", "nd", "ck", "m", "rt", "lm", "x"]
FIRST = ["Anna", "Boris", "Clara", "David", "Edda", "Felix", "Greta", "Hugo", "Irene", "Jonas", "Karla", "Leon", "Mira", "Nils", "Olga", "Peter"]
MEN = {"Boris", "David", "Felix", "Hugo", "Jonas", "Leon", "Nils", "Peter"}
COLOURS = ["red", "blue", "green", "yellow", "white", "purple", "orange", "grey", "brown", "turquoise"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["March", "April", "June", "July", "August", "September", "October"]
LISTS = {
    "colour": COLOURS, "weekday": DAYS, "month": MONTHS, "thing": ["umbrellas", "violins", "lanterns", "saddles", "kettles", "mirrors"],
    "fuel": ["diesel", "steam", "petrol", "charcoal", "wind"], "frequency": ["every week", "every morning", "twice a month", "once a year"],
    "instrument": ["flute", "violin", "harp", "trumpet", "cello"], "spice": ["cumin", "saffron", "pepper", "nutmeg", "dill"],
    "use": ["soap", "glue", "medicine", "dye", "rope"], "few": ["two", "three", "four", "five", "six", "seven"]}


class World:
    """documents: name to text; facts: (question, sentence, value, question in other words); absent: questions."""

    def __init__(self, seed, family, documents=40):
        self.random = random.Random(seed * 2 + (family == "B"))
        self.family, self.taken = family, set()
        self.documents, self.facts, self.absent = {}, [], []
        for i in range(documents):
            self.write(list(KINDS)[i % len(KINDS)])
        self.random.shuffle(self.facts)
        self.random.shuffle(self.absent)

    def word(self):
        r = self.random
        while True:
            word = (r.choice(ONSETS) + r.choice(VOWELS) + r.choice(CODAS) + (r.choice(["en", "a", "o", "ow", "ey", "ish", "ell"]))).capitalize()
            if word not in self.taken:
                self.taken.add(word)
                return word

    def name(self, kind):
        word, r = self.word(), self.random
        if kind == "town":
            return word
        if kind == "person":
            return r.choice(FIRST) + " " + word
        return {"company": word + " " + r.choice(["Works", "Brothers", "Mill", "Trading", "Glass"]),
                "machine": "the " + word + " " + r.choice(["press", "pump", "loom", "thresher", "dryer"]),
                "recipe": word + " " + r.choice(["pie", "bread", "cake", "tart"]),
                "plant": "the " + word + " " + r.choice(["lily", "thistle", "fern", "rose"])}[kind]

    def value(self, kind):
        r = self.random
        if kind in LISTS:
            return r.choice(LISTS[kind])
        if kind == "person":
            return r.choice(FIRST) + " " + self.word()
        if kind in ("place", "title"):
            return self.word()
        return {"people": lambda: f"{r.randint(1, 9)},{r.randint(100, 999)}", "year": lambda: str(r.randint(1650, 1990)),
                "metres": lambda: str(r.randint(2, 60)), "money": lambda: f"{r.randint(2, 90)},{r.randint(100, 999)}",
                "kilograms": lambda: str(r.randint(20, 900)), "minutes": lambda: str(r.randint(15, 90)),
                "number": lambda: str(r.randint(110, 900))}[kind]()

    def write(self, kind):
        r, name, table = self.random, self.name(kind), KINDS[kind]
        upper = name[0].upper() + name[1:]
        model = name.removeprefix("the ")
        attributes = list(table)
        r.shuffle(attributes)
        stated, withheld = attributes[:5], attributes[5:]
        at = 1 if self.family == "A" else 3
        sentences = []
        pronoun = "He" if name.split()[0] in MEN else "She"
        for attribute in stated:
            value = self.value(table[attribute][0])
            subject = r.choice([upper, "It", WORDS_FOR[kind]]) if kind != "person" else upper
            sentence = table[attribute][at].format(n=name, s=subject, v=value, m=model, p=r.choice([upper, pronoun]))
            sentence = sentence[0].upper() + sentence[1:]
            question, other = (table[attribute][i].format(n=name, m=model) for i in (at + 1, 5))
            sentences.append(sentence)
            self.facts.append((question, sentence, value, other))
        for attribute in withheld:
            self.absent.append(table[attribute][at + 1].format(n=name, m=model))
        self.absent.append(r.choice(NEVER[kind]).format(n=name))
        if r.random() < 0.4:
            stranger = self.name(kind)
            self.absent.append(table[stated[0]][at + 1].format(n=stranger, m=stranger.removeprefix("the ")))
        sentences += r.sample(ASIDES, 2)
        r.shuffle(sentences)
        # Last, so that no pronoun follows that could mean the other thing.
        if r.random() < 0.5:
            sentences.append(self.distraction(kind, withheld[0]))
        half = len(sentences) // 2
        first = " ".join([INTRODUCTIONS[kind].format(n=upper), *sentences[:half]])
        title = upper.removeprefix("The ")
        second = " ".join(sentences[half:])
        if self.family == "B":
            self.documents[f"note{len(self.documents)}.txt"] = f"{title}\n{'=' * len(title)}\n\n{first}\n\nMore about it\n-------------\n\n{second}\n"
        else:
            self.documents[f"page{len(self.documents)}.md"] = f"# {title}\n\n{first}\n\n{second}\n"

    def distraction(self, kind, attribute):
        """A sentence about something similar that has no document, with a fact that the document leaves out."""
        row = KINDS[kind][attribute]
        other = self.name(kind)
        at = 1 if self.family == "A" else 3
        upper = other[0].upper() + other[1:]
        sentence = row[at].format(n=other, s=upper, v=self.value(row[0]), m=other.removeprefix("the "), p=upper)
        if other.removeprefix("the ") not in sentence:
            sentence = "At " + other + ", " + sentence[0].lower() + sentence[1:]
        return sentence[0].upper() + sentence[1:]
