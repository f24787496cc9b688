import './style/base.css';
import './style/chat.css';
import './style/views.css';
import {render} from 'preact';
import {App} from './app';
import {connect} from './state';

render(<App />, document.getElementById('app')!);
void connect().then(() => performance.mark('usable'));
