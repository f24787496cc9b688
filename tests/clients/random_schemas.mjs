// Random JSON Schemas whose documents are short.

export class Random {
  constructor(seed) {
    this.state = BigInt(seed);
  }
  /// In [0, 1): splitmix64.
  unit() {
    const mask = 0xffffffffffffffffn;
    this.state = (this.state + 0x9e3779b97f4a7c15n) & mask;
    let z = this.state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
    return Number((z ^ (z >> 31n)) >> 11n) / 2 ** 53;
  }
  /// Both ends included.
  range(low, high) {
    return low + Math.floor(this.unit() * (high - low + 1));
  }
  chance(probability) {
    return this.unit() < probability;
  }
  pick(list) {
    return list[this.range(0, list.length - 1)];
  }
  shuffled(list) {
    const out = [...list];
    for (let i = out.length - 1; i > 0; --i) {
      const j = this.range(0, i);
      [out[i], out[j]] = [out[j], out[i]];
    }
    return out;
  }
}

const kNames = ['name', 'größe', '名前', 'a b', 'x', 'type', 'the_longest_of_all_names', 'q"uote', 'back\\slash', 'é', '$id2', '😀', 'n1', '</x>'];
const kTexts = ['red', 'grün', '青', '', 'a "b"', 'c\\d', '<tool_call>', '</tool_call>', '😀', 'two words', 'line\nbreak', '}'];

function randomText(random) {
  switch (random.range(0, 4)) {
    case 0: return {type: 'string', enum: random.shuffled(kTexts).slice(0, random.range(1, 4))};
    case 1: return {type: 'string', pattern: random.pick(['^[a-z]{1,4}$', '^(ä|ö)+ß?$', '^\\d{3}-\\d{2}$', '^.{2,5}$', '^x'])  , maxLength: 9};
    case 2: return {type: 'string', minLength: random.range(0, 3), maxLength: random.range(3, 12)};
    case 3: return {const: random.pick(kTexts)};
    default: return {type: 'string', maxLength: random.range(0, 8)};
  }
}

function randomNumber(random) {
  const low = random.range(-1000, 1000);
  switch (random.range(0, 3)) {
    case 0: return {type: 'integer', minimum: low, maximum: low + random.range(0, 2000)};
    case 1: return {type: 'integer', exclusiveMinimum: low, exclusiveMaximum: low + random.range(2, 50)};
    case 2: return {type: 'integer', multipleOf: random.pick([2, 5, 7]), minimum: 0, maximum: 100};
    default: return {type: 'number', multipleOf: 0.5, minimum: -5, maximum: 99.5};
  }
}

function randomLeaf(random) {
  switch (random.range(0, 5)) {
    case 0: case 1: return randomText(random);
    case 2: case 3: return randomNumber(random);
    case 4: return {type: random.pick(['boolean', 'null', ['boolean', 'null']])};
    default: return {enum: random.shuffled([1, -2.5, 'ü', null, true, [], {}, {a: [1]}, 'x y', 1e3]).slice(0, random.range(1, 4))};
  }
}

function randomArray(random, depth) {
  const schema = {type: 'array', items: randomSchema(random, depth - 1), maxItems: random.range(1, 3)};
  if (random.chance(0.3)) schema.minItems = 1;
  if (random.chance(0.15)) Object.assign(schema, {items: {type: 'integer', minimum: 0, maximum: 9}, uniqueItems: true});
  if (random.chance(0.1)) {
    return {type: 'array', prefixItems: [randomLeaf(random), randomLeaf(random)], items: false, minItems: random.range(0, 2)};
  }
  return schema;
}

export function randomObjectSchema(random, depth) {
  const names = random.shuffled(kNames).slice(0, random.range(1, 4));
  const properties = Object.fromEntries(names.map((name) => [name, randomSchema(random, depth - 1)]));
  const schema = {type: 'object', properties, additionalProperties: false};
  schema.required = random.chance(0.5) ? names : names.filter(() => random.chance(0.5));
  if (random.chance(0.04)) delete schema.additionalProperties;
  return schema;
}

/// `depth`: objects and arrays inside of each other.
export function randomSchema(random, depth) {
  if (depth <= 0) return randomLeaf(random);
  switch (random.range(0, 6)) {
    case 0: case 1: return randomObjectSchema(random, depth);
    case 2: case 3: return randomArray(random, depth);
    case 4: return {anyOf: [randomLeaf(random), randomSchema(random, depth - 1)]};
    default: return randomLeaf(random);
  }
}
