package import Persistence
import ProxyCore
package import ProxyRuntime
package import Reactor

/// The HTTP routes for health probes, readiness probes and the version, which need no key.
package struct SystemRoutes {
    /// Why the daemon cannot serve; `nil` if the daemon can serve.
    let obstacle: @Sendable () -> String?
    /// Why a part of the daemon's work fails while the daemon serves requests; `nil` if no part fails.
    var shortcoming: @Sendable () async -> String? = { nil }

    private struct State: Encodable {
        let status: String
    }

    private struct Readiness: Encodable {
        let status: String
        let detail: String?
    }

    fileprivate struct VersionReport: Codable {
        let version: String
        let commit: String
    }

    package func register(in router: inout ServiceRouter) {
        // Any answer to `GET /healthz` proves that the loop runs.
        router.add("GET", "/healthz", scope: nil, domains: .open, described: .health) { call throws(ServiceProblem) in
            call.answer(State(status: "ok"))
        }
        router.add("GET", "/readyz", scope: nil, domains: .open, described: .readiness) { call throws(ServiceProblem) in
            if let obstacle = obstacle() { throw ServiceProblem(503, "not ready", detail: obstacle, retryAfter: 10) }
            let detail = await shortcoming()
            call.answer(Readiness(status: detail == nil ? "ready" : "degraded", detail: detail))
        }
        router.add("GET", "/version", scope: nil, domains: .open, described: .version) { call throws(ServiceProblem) in
            call.answer(VersionReport(version: Version.current, commit: Version.commit))
        }
    }
}

extension SystemRoutes {
    /// Creates the routes. The closure `events` returns the reason why events do not reach the operator's receiver.
    package init(
        loop: EventLoop, store: any ProxyStore, door: ShardDoor,
        events: @escaping @Sendable () -> String? = { nil }
    ) {
        obstacle = { loop.isRunning && !door.isDraining ? store.obstacle : "the daemon is stopping" }
        shortcoming = {
            let troubles = [
                await door.ask(.everything) { engine, _ in engine.trouble }, events(), store.shortcoming,
            ].compactMap(\.self)
            return troubles.isEmpty ? nil : troubles.joined(separator: "; ")
        }
    }
}

extension RouteDescription {
    fileprivate static let health = RouteDescription("getHealth", "Whether the daemon's event loop runs")
        .answer(200, "The loop runs", .object(["status": .choice(["ok"])]))
    fileprivate static let readiness = RouteDescription("getReadiness", "Whether the daemon serves")
        .answer(
            200,
            "The daemon serves. `degraded` means that some calls fail, phones are not woken, events do not reach the receiver, or the store's database can lose acknowledged changes, for the reason in `detail`",
            .object(
                ["status": .choice(["ready", "degraded"])],
                optional: ["detail": .words("The reason why the status is degraded.")])
        )
        .problem(503, "The store cannot be written, or has fallen behind, or the daemon is about to stop.")
    fileprivate static let version = RouteDescription(
        "getVersion", "The daemon's version, and the commit it was built from"
    )
    .answer(200, "The version", SystemRoutes.VersionReport.self)
}
