// Takes the token, which is used up, out of the address.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);
// Asks for the table of runs while the modules are still loaded, on pages that begin with it.
if (/^(#\/(runs|passk|problems?|samples)\b(?!.*[?&](columns|filter)=).*)?$/.test(location.hash)) globalThis.early = fetch("api/runs");
