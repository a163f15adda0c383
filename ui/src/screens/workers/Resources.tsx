/** The host of a worker, and how much CPU and memory are in use. */
import { useMessages } from "../../i18n/messages";
import { fileSize } from "../../i18n/size";
import { UserText } from "../../ui/UserText";
import { messages } from "./messages";
import { Fact } from "./WorkerDetails";
import styles from "./Workers.module.css";
import { isOnline, type Worker } from "./workers";

const cores = (value: number): string => (value < 10 ? value.toFixed(2) : value.toFixed(0));
const percent = (share: number): string => `${Math.round(share * 100)}%`;

/** In the row: what the worker uses, and where. Nothing for a worker of an earlier version. */
export function Load({ worker }: { worker: Worker }) {
  const t = useMessages(messages);
  const { host, usage } = worker;
  return (
    <div className={styles.load}>
      {host && (
        <span className={styles.host} title={host.name}>
          <UserText text={host.name} />
        </span>
      )}
      {isOnline(worker) && usage && (
        <span className={styles.faint}>
          {usage.cpu_cores !== null && t("cpuShort", { cores: cores(usage.cpu_cores) })}
          {usage.cpu_cores !== null && usage.memory_bytes !== null && " · "}
          {usage.memory_bytes !== null && fileSize(usage.memory_bytes)}
        </span>
      )}
    </div>
  );
}

export function Resources({ worker }: { worker: Worker }) {
  const t = useMessages(messages);
  const { host, usage } = worker;
  return (
    <section>
      <h3>{t("host")}</h3>
      {!host && <p className={styles.faint}>{t("noHost")}</p>}
      {host && (
        <dl className={styles.facts}>
          <Fact name={t("hostName")}>
            <UserText text={host.name} />
          </Fact>
          <Fact name={t("system")}>{t("systemOf", { system: host.system, python: host.python })}</Fact>
          {usage && isOnline(worker) && (
            <>
              <Fact name={t("cpu")}>
                {usage.cpu_cores === null ? t("notYet") : t("cpuCores", { cores: cores(usage.cpu_cores) })}
              </Fact>
              <Fact name={t("memory")}>
                {usage.memory_bytes === null
                  ? t("notYet")
                  : t("memoryOf", { size: fileSize(usage.memory_bytes), count: usage.processes })}
              </Fact>
              {usage.host_cpu !== null && (
                <Fact name={t("hostCpu")}>
                  <Bar share={usage.host_cpu} label={t("hostCpu")} />
                  {t("cpuOfHost", { percent: percent(usage.host_cpu), count: host.cpus })}
                </Fact>
              )}
              {usage.host_memory_bytes !== null && host.memory_bytes !== null && (
                <Fact name={t("hostMemory")}>
                  <Bar share={usage.host_memory_bytes / host.memory_bytes} label={t("hostMemory")} />
                  {t("memoryOfHost", {
                    used: fileSize(usage.host_memory_bytes),
                    total: fileSize(host.memory_bytes),
                  })}
                </Fact>
              )}
            </>
          )}
        </dl>
      )}
    </section>
  );
}

function Bar({ share, label }: { share: number; label: string }) {
  return <meter className={styles.bar} min={0} max={1} high={0.9} value={share} aria-label={label} />;
}
