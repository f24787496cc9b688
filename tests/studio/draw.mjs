// A part of many cases, drawn by a seed.
import {createHash, randomInt} from 'node:crypto';

export class Draw {
  /// `sample`: false: all cases. The seed is fresh unless STUDIO_SEED gives it.
  constructor(sample) {
    this.sample = sample;
    this.seed = process.env.STUDIO_SEED ?? String(randomInt(2 ** 32));
  }

  /// `count` of `cases`, in their order; the seed alone decides which, however tests are scheduled.
  some(cases, count) {
    if (!this.sample || cases.length <= count) return cases;
    const rank = (i) => createHash('sha256').update(`${this.seed} ${cases.length} ${i}`).digest('hex');
    const taken = cases.map((_, i) => [rank(i), i]).sort().slice(0, count).map(([, i]) => i);
    return taken.sort((a, b) => a - b).map((i) => cases[i]);
  }
}
