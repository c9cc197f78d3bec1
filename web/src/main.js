import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';
import { begin } from './lib/session.svelte.js';

begin();
mount(App, { target: document.getElementById('app') });
