// A conversation: its messages, and the field for the next one.
import {useLayoutEffect, useRef, useState} from 'preact/hooks';
import {useFollowEnd} from '../follow_end';
import {t} from '../i18n';
import {Composer} from '../parts/composer';
import {editRequest, MessageView} from '../parts/message';
import {Welcome} from '../parts/welcome';
import {current} from '../state';

const SHOWN = 40;  // messages at first; earlier ones follow when the reader scrolls up

export function ChatView() {
  const conversation = current.value;
  const list = useRef<HTMLDivElement>(null);
  const {follow, onScroll: followScroll, ...touches} = useFollowEnd(list);
  const [shown, setShown] = useState(SHOWN);
  const path = conversation.path();
  void conversation.leaf.value;
  // A message that is to be edited is among those that are drawn.
  const edited = path.findIndex((m) => m.id === editRequest.value);
  const drawn = edited < 0 ? shown : Math.max(shown, path.length - edited);
  const messages = path.slice(Math.max(0, path.length - drawn));
  const running = conversation.running.value !== null;

  useLayoutEffect(() => {
    setShown(SHOWN);
    follow();
  }, [conversation]);

  const onScroll = () => {
    const element = list.current!;
    followScroll();
    if (element.scrollTop < 400 && path.length > shown) {
      const fromEnd = element.scrollHeight - element.scrollTop;
      setShown(shown + SHOWN);
      requestAnimationFrame(() => { element.scrollTop = element.scrollHeight - fromEnd; });
    }
  };

  return (
    <>
      <main id="main" class="messages-box" ref={list} onScroll={onScroll} tabIndex={0}
            {...touches} aria-label={t('Conversation')}>
        <div id="messages" class="messages">
          {!path.length && <Welcome />}
          {path.length > drawn && <button class="link" onClick={() => setShown(shown + SHOWN)}>{t('Show earlier messages')}</button>}
          {messages.map((message) => (
            <MessageView key={message.id} conversation={conversation} message={message}
                         isLast={message === path.at(-1)} running={running && message === path.at(-1)} />
          ))}
        </div>
      </main>
      <Composer key={conversation.info.id} conversation={conversation} onSent={follow} />
    </>
  );
}
