// How the model's tokenizer divides a text.
import {signal} from '@preact/signals';
import {useEffect, useState} from 'preact/hooks';
import {post} from '../api';
import {number, t} from '../i18n';
import {attempt, modelName} from '../state';

const text = signal('Chimère writes café, 日本語 and 🦁.');

interface Pieces {
  tokens: number[];
  pieces: string[];
}

export default function Tokens() {
  const [result, setResult] = useState<Pieces | null>(null);
  const [special, setSpecial] = useState(false);
  const wanted = text.value;
  const model = modelName.value;
  useEffect(() => {
    const timer = setTimeout(() => void attempt(async () => {
      const body = {content: wanted, with_pieces: true, parse_special: special, ...(model && {model})};
      setResult(wanted ? await post<Pieces>('tokenize', body) : {tokens: [], pieces: []});
    }), 200);
    return () => clearTimeout(timer);
  }, [wanted, special, model]);
  const characters = [...wanted].length;
  return (
    <main id="main" class="view"><div class="view-inner">
      <h2>{t('Tokens')}</h2>
      <p class="faint">{t('How the tokenizer of {model} divides a text.', {model})}</p>
      <textarea id="token-input" class="wide" rows={5} dir="auto" aria-label={t('Text')} value={wanted}
                onInput={(e) => { text.value = e.currentTarget.value; }} />
      <label class="check">
        <input type="checkbox" checked={special} onChange={(e) => setSpecial(e.currentTarget.checked)} />
        {t('Names of control tokens become control tokens')}
      </label>
      {result && (
        <>
          <p role="status" id="token-count">
            {t('{n} tokens, {m} characters', {n: number(result.tokens.length), m: number(characters)})}
            {result.tokens.length > 0 && ` (${t('{n} characters a token', {n: number(characters / result.tokens.length, 2)})})`}
          </p>
          <div class="pieces" dir="auto">
            {result.pieces.map((piece, i) => <span key={i} class={`piece c${i % 5}`} title={String(result.tokens[i])}>{piece}</span>)}
          </div>
          <details>
            <summary>{t('Token ids')}</summary>
            <p class="address" dir="ltr">{result.tokens.join(', ')}</p>
          </details>
        </>
      )}
    </div></main>
  );
}
