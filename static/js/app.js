// What the first screen needs, in one request: the server joins what is imported here. The rest comes by import().
import { startControllers } from "./lib/controllers.js";
import "./controllers/theme.js";
import "./controllers/time_zone.js";
import "./controllers/keys.js";
import "./controllers/offline.js";
import "./controllers/sidebar.js";
import "./controllers/marks.js";
import "./controllers/toast.js";
import "./controllers/reading.js";
import "./controllers/elapsed.js";
import "./controllers/running.js";
import "./controllers/act.js";
import "./controllers/composer.js";
import "./controllers/draft.js";
import "./controllers/edit.js";
import "./controllers/copy.js";
import "./controllers/maths.js";
import "./controllers/follow.js";

startControllers();
performance.mark("nightdesk-ready");
