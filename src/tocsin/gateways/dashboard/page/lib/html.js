/** Preact and htm, imported once for all modules. */
import { Component, Fragment, createContext, h, render } from "../vendor/preact.js";
import { useCallback, useContext, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export { Component, Fragment, createContext, h, render, useCallback, useContext, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState };
