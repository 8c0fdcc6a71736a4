// What pages do beyond HTML. Everything works without it but for live search, live previews, parts
// that renew themselves, and what was typed before a sign-in.
import { localFields, localTimes, nameZone, sendZone } from "./times.js";
import { suggest } from "./suggest.js";
import { livePreview } from "./live.js";
import { drafts } from "./drafts.js";
import { follow } from "./follow.js";
import { sendOnce, copyButtons, fillFromFragment, shortcuts, showRefusal, sizeLimit } from "./forms.js";

// First: it compares the page with a later one, as the server has sent both.
follow();
localTimes(document);
localFields();
nameZone();
sendZone();
document.querySelectorAll("input[data-suggest]").forEach(suggest);
document.querySelectorAll("form[data-live]").forEach(livePreview);
drafts();
document.querySelectorAll("form[method=post]").forEach(sendOnce);
document.querySelectorAll("input[data-most]").forEach(sizeLimit);
document.querySelectorAll("input[data-fragment]").forEach(fillFromFragment);
copyButtons(document);
shortcuts();
showRefusal();
