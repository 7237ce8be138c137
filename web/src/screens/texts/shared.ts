// Texts of waiting and of errors.
import { texts } from "../../lib/language.svelte";

export const t = texts({
  en: {
    busyTitle: "The server is busy",
    busyDetail: "Other requests are being served. Trying again.",
    awayTitle: "The server does not answer",
    awayDetail: "Trying again; start it with regard studio if it was stopped.",
    errorTitle: "That did not work",
    again: "Try again",
  },
  zh: {
    busyTitle: "服务器正忙",
    busyDetail: "正在处理其他请求，稍后会自动重试。",
    awayTitle: "服务器没有响应",
    awayDetail: "会自动重试；如果已经停止，请用 regard studio 重新启动。",
    errorTitle: "出错了",
    again: "重试",
  },
});
