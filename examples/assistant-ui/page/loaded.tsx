import { AuiIf } from "@assistant-ui/react";
import type { ReactNode } from "react";

export function OnceLoaded({ children }: { children: ReactNode }) {
  return <AuiIf condition={({ thread }) => !thread.isLoading}>{children}</AuiIf>;
}
