// An empty conversation; on the first visit three steps explain the page.
import {useState} from 'preact/hooks';
import {t} from '../i18n';
import {features, focusInput, models, modelName, privateMode, settingsOpen, welcomed} from '../state';

export function Welcome() {
  const [step, setStep] = useState(0);
  const steps: [string, string][] = [
    [t('Ask'), t('Write a question below. The answer is made by {model}, on the machine that serves this page; nothing goes elsewhere.', {model: modelName.value || t('the model')})],
    [t('Keep'), features.value.history ?
      t('Conversations are kept on the server, for your key alone. “Private” keeps one in this browser. Delete removes it for good.') :
      t('Conversations are kept in this browser. Delete removes one for good.')],
    [t('Look inside'), t('Settings hold the model, every sampling option with its meaning, and JSON Schema. With “Probabilities of the tokens” you see what else the model could have said.')],
  ];
  const done = () => {
    welcomed.value = true;
    focusInput();
  };
  return (
    <div class="welcome">
      <img src="favicon.ico" alt="" width="56" height="56" />
      <h2>{t('What would you like to know?')}</h2>
      {!welcomed.value ? (
        <section class="steps" id="welcome" aria-label={t('First steps')}>
          <ol class="dots" aria-hidden="true">{steps.map((_, i) => <li key={i} class={i === step ? 'on' : ''} />)}</ol>
          <h3>{step + 1}. {steps[step]![0]}</h3>
          <p aria-live="polite">{steps[step]![1]}</p>
          <div class="actions">
            <button class="link" onClick={done}>{t('Skip')}</button>
            <span class="gap" />
            {step > 0 && <button onClick={() => setStep(step - 1)}>{t('Back')}</button>}
            {step < 2 ? <button class="primary next" onClick={() => setStep(step + 1)}>{t('Next')}</button> :
              <button class="primary next" onClick={done}>{t('Begin')}</button>}
          </div>
        </section>
      ) : (
        <p class="faint">
          {privateMode.value ? t('This conversation stays in this browser.') : ''}{' '}
          {models.value.length > 0 && <button class="link" onClick={() => { settingsOpen.value = true; }}>{t('Settings')}</button>}
        </p>
      )}
    </div>
  );
}
