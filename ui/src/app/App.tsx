/** The page: the shell, the current screen, and overlays. */
import { QueryClientProvider } from "@tanstack/react-query";
import { Compass } from "lucide-react";
import { useMemo, useState } from "react";
import { queryClient } from "../api/queries";
import { useMessages } from "../i18n/messages";
import { ButtonLink } from "../ui/controls";
import { EmptyState, Loading } from "../ui/feedback";
import { Page } from "../ui/Page";
import { ToastList } from "../ui/ToastList";
import { CommandPalette } from "./CommandPalette";
import { ErrorBoundary } from "./ErrorBoundary";
import { KeyboardHelp } from "./KeyboardHelp";
import { KeyGate } from "./KeyGate";
import { usePart } from "./loading";
import { messages } from "./messages";
import { href, navigate, usePlace } from "./router";
import { Shell } from "./Shell";
import { findScreen, KEYLESS, NAVIGATION, type Screen, type ScreenProps } from "./screens";
import { type Shortcut, useShortcut, useShortcuts } from "./shortcuts";

export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <Dashboard />
    </QueryClientProvider>
  );
}

function Dashboard() {
  const t = useMessages(messages);
  const [palette, setPalette] = useState(false);
  const [keys, setKeys] = useState(false);
  useShortcuts(useNavigationKeys());
  useShortcut("mod+k", () => setPalette((open) => !open), t("openPalette"));
  useShortcut("?", () => setKeys(true), t("showKeys"));
  return (
    <>
      <Shell onSearch={() => setPalette(true)}>
        <CurrentScreen />
      </Shell>
      <CommandPalette open={palette} onClose={() => setPalette(false)} />
      <KeyboardHelp open={keys} onClose={() => setKeys(false)} />
      <ToastList />
    </>
  );
}

function CurrentScreen() {
  const { path } = usePlace();
  const found = findScreen(path);
  if (!found) return <NotFound />;
  return (
    <ErrorBoundary key={path}>
      <OpenScreen screen={found.screen} params={found.params} />
    </ErrorBoundary>
  );
}

function OpenScreen({ screen, params }: { screen: Screen } & ScreenProps) {
  const loaded = usePart(screen.load);
  if (!loaded) return <Loading />;
  const content = <loaded.default params={params} />;
  return KEYLESS.includes(screen.nav) ? content : <KeyGate>{content}</KeyGate>;
}

function NotFound() {
  const t = useMessages(messages);
  return (
    <Page title={t("notFound")}>
      <EmptyState
        icon={Compass}
        title={t("notFound")}
        actions={<ButtonLink href={href("/runs")}>{t("toRuns")}</ButtonLink>}
      >
        {t("notFoundCure")}
      </EmptyState>
    </Page>
  );
}

function useNavigationKeys(): readonly Shortcut[] {
  const t = useMessages(messages);
  return useMemo(
    () =>
      NAVIGATION.map(({ name, path, letter }) => ({
        keys: `g ${letter}`,
        label: t("goTo", { place: t(`nav.${name}`) }),
        run: () => navigate(href(path)),
      })),
    [t],
  );
}
