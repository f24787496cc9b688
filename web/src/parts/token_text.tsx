// The tokens of an answer, coloured by their probability, with the alternatives of the one that is pointed at.
import {useState} from 'preact/hooks';
import {number, t} from '../i18n';
import type {TokenInfo} from '../types';

const percent = (logprob: number) => `${number(Math.exp(logprob) * 100, 1)} %`;
const visible = (text: string) => text.replace(/ /g, '␣').replace(/\n/g, '⏎').replace(/\t/g, '⇥') || '∅';

/// 0: nearly certain, to 4: unlikely.
function surprise(logprob: number): number {
  const p = Math.exp(logprob);
  return p > 0.9 ? 0 : p > 0.6 ? 1 : p > 0.3 ? 2 : p > 0.1 ? 3 : 4;
}

export function TokenText({tokens}: {tokens: TokenInfo[]}) {
  const [at, setAt] = useState(-1);
  const chosen = tokens[at];
  const move = (event: KeyboardEvent) => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    setAt(Math.max(0, Math.min(tokens.length - 1, at + by)));
  };
  return (
    <div class="token-box">
      <div class="token-text" tabIndex={0} role="group" dir="auto" onKeyDown={move}
           aria-label={t('Tokens; the arrow keys move from one to the next')}>
        {tokens.map((token, i) => (
          <span key={i} class={`token s${surprise(token.logprob)} ${token.drafted ? 'drafted' : ''} ${i === at ? 'chosen' : ''}`}
                onMouseEnter={() => setAt(i)} onClick={() => setAt(i)}>{token.text}</span>
        ))}
      </div>
      <div class="alternatives" role="status">
        {chosen ? (
          <>
            <p><code>{visible(chosen.text)}</code> {percent(chosen.logprob)}{chosen.drafted && ` · ${t('from a draft')}`}</p>
            <ol>
              {chosen.top.map(([text, logprob], i) => (
                <li key={i} class={text === chosen.text ? 'chosen' : ''}>
                  <code>{visible(text)}</code>
                  <meter min={0} max={1} value={Math.exp(logprob)} aria-label={percent(logprob)} />
                  <span>{percent(logprob)}</span>
                </li>
              ))}
            </ol>
          </>
        ) : (
          <p class="faint">
            {t('Point at a token to see what else could have come.')}{' '}
            {tokens.some((token) => token.drafted) && t('Underlined tokens came from a draft.')}
          </p>
        )}
      </div>
    </div>
  );
}
