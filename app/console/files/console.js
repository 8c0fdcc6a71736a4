// What pages do beyond HTML. Everything works without it but for live search and live previews.
import { localTimes } from "./times.js";
import { suggest } from "./suggest.js";
import { livePreview } from "./live.js";
import { sendOnce, copyButtons, shortcuts, showRefusal } from "./forms.js";

localTimes(document);
document.querySelectorAll("input[data-suggest]").forEach(suggest);
document.querySelectorAll("form[data-live]").forEach(livePreview);
document.querySelectorAll("form[method=post]").forEach(sendOnce);
copyButtons(document);
shortcuts();
showRefusal();
