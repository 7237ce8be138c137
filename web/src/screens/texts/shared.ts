// Texts of pending and failed requests.
import { texts } from "../../lib/language.svelte";

export const t = texts({
  en: {
    busyTitle: "The server is busy",
    busyDetail: "Other requests are being served. Trying again.",
    unreachableTitle: "The server cannot be reached",
    unreachableDetail: "Trying again. If it was stopped, start it with regard studio.",
    errorTitle: "The request failed",
    retry: "Try again",
    serverSays: "{detail}",
  },
  zh: {
    busyTitle: "服务器正忙",
    busyDetail: "正在处理其他请求，稍后会自动重试。",
    unreachableTitle: "无法连接服务器",
    unreachableDetail: "会自动重试；如果已经停止，请用 regard studio 重新启动。",
    errorTitle: "请求失败",
    retry: "重试",
    serverSays: "服务器的说明（英文）：{detail}",
  },
});
