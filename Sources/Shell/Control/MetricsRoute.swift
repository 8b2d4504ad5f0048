import HTTPServer
import HTTPServices
import ProxyCore
import ProxyRuntime
import PushDelivery
import Routing
import Telemetry
import Timekeeping
import UpstreamRegistration

/// The daemon's metrics for Prometheus; docs/Metrics.md lists the metrics.
struct MetricsRoute {
    let door: ShardDoor
    /// Returns the metrics of all parts of the daemon except the engine. The loop's thread calls the closure `figures`
    /// for each request.
    let figures: @Sendable () -> CounterSet
    /// Returns the certificate files in the settings, and the time at which each certificate expires.
    let certificates: @Sendable () -> [(file: String, date: UnixTime)]

    func register(in router: inout ServiceRouter) {
        router.add("GET", "/metrics", scope: .metrics, domains: .wholeDaemon, described: .metrics) {
            call throws(ServiceProblem) in
            var (figures, servers, reports, providers, users) = await door.ask(.everything) { engine, _ in
                (
                    engine.figures, engine.upstreamState.health.servers + engine.pbxServers, engine.pushReports,
                    ProviderReport.all(of: engine),
                    engine.upstreamUsers.agent.counts
                )
            }
            let families =
                MetricFamily.pushes(reports) + [.paused(providers)] + [
                    .upstream(servers), .build, .certificates(certificates()),
                ]
                + MetricFamily.process() + MetricFamily.upstreamUsers(users)
            figures.merge(self.figures())
            call.answer(
                HTTPResponse(
                    type: "text/plain; version=0.0.4; charset=utf-8",
                    body: Array(figures.prometheusText(with: families).utf8)))
        }
    }
}

extension MetricFamily {
    /// A gauge for each server of the upstream: 1 if the server answers, 0 if not. A server to which no OPTIONS was
    /// sent yet has no value.
    static func upstream(_ servers: [UpstreamHealth.Server]) -> MetricFamily {
        var family = MetricFamily(
            "sippushd_upstream_up", .gauge,
            "1 while a server of the upstream answers, else 0.")
        for server in servers where server.state != .unknown {
            family.add(server.state == .up ? 1 : 0, [.server: "\(server.hop.endpoint)"])
        }
        return family
    }

    /// The metrics of the users whom the daemon keeps registered at a PBX.
    static func upstreamUsers(_ counts: UpstreamCounts) -> [MetricFamily] {
        var bindings = MetricFamily(
            "sippushd_upstream_bindings", .gauge, "Users who are kept registered at a PBX, by state.")
        for state in RegistrationState.allCases { bindings.add(counts[state], [.state: state.name]) }
        var results = MetricFamily(
            "sippushd_upstream_register_total", .counter, "Answers of PBXs to REGISTERs of the daemon, by result.")
        for result in UpstreamCounts.Result.allCases { results.add(counts[result], [.result: result.name]) }
        var lag = MetricFamily(
            "sippushd_upstream_refresh_lag_seconds", .histogram,
            "Time from the due time of a refresh at a PBX to the PBX's 200.")
        lag.add(counts.refreshLag)
        return [bindings, results, lag]
    }

    /// A gauge for each provider: 1 if the provider is paused, 0 if not.
    static func paused(_ providers: [ProviderReport]) -> MetricFamily {
        var family = MetricFamily(
            "sippushd_push_provider_paused", .gauge, "1 while a push provider is paused and gets nothing; else 0.")
        for provider in providers { family.add(provider.isPaused ? 1 : 0, [.provider: provider.name]) }
        return family
    }

    static var build: MetricFamily {
        var family = MetricFamily("sippushd_build_info", .gauge, "The running version; the value is always 1.")
        family.add(1, [.version: Version.current])
        return family
    }

    static func certificates(_ ends: [(file: String, date: UnixTime)]) -> MetricFamily {
        var family = MetricFamily(
            "sippushd_certificate_expiry_timestamp_seconds", .gauge,
            "When a certificate of the settings expires, in Unix seconds.")
        for (file, date) in ends { family.add(date.seconds, [.file: file]) }
        return family
    }

    /// The metrics of the pushes to each app.
    static func pushes(_ reports: [(app: PushApp, report: PushAppReport)]) -> [MetricFamily] {
        var sent = MetricFamily("sippushd_pushes_sent_total", .counter, "Pushes sent to a provider, including retries.")
        var ended = MetricFamily("sippushd_pushes_ended_total", .counter, "Pushes that have ended, by outcome.")
        var retries = MetricFamily("sippushd_push_retries_total", .counter, "Retries of pushes to a provider.")
        var breaker = MetricFamily(
            "sippushd_push_breaker_open", .gauge,
            "1 while the breaker is open, because the provider was not reached; else 0.")
        var limited = MetricFamily(
            "sippushd_push_limited_total", .counter, "Answers 429 of push servers that phones chose.")
        var limitedHosts = MetricFamily(
            "sippushd_push_host_limited_total", .counter,
            "Answers 429 of the busiest push servers that phones chose, by host.")
        var hosts = MetricFamily(
            "sippushd_push_hosts", .gauge, "Push servers that phones chose and that the daemon remembers.")
        for (app, report) in reports {
            let (provider, name) = (app.provider.rawValue, app.name)
            if app.chosenHosts != nil {
                limited.add(report.limited, [.provider: provider, .app: name])
                hosts.add(report.hostCount, [.provider: provider, .app: name])
                for host in report.hosts { limitedHosts.add(host.limited, [.app: name, .host: host.host]) }
            }
            sent.add(report.sent, [.provider: provider, .app: name])
            retries.add(report.retried, [.provider: provider, .app: name])
            breaker.add(report.isReachable ? 0 : 1, [.provider: provider, .app: name])
            for (outcome, count) in app.chosenHosts == nil ? report.ends : report.endsAtChosenHosts {
                ended.add(count, [.provider: provider, .app: name, .outcome: outcome])
            }
        }
        return [sent, ended, retries, breaker, limited, limitedHosts, hosts]
    }
}

extension PushAppReport {
    /// For each outcome, the number of pushes to hosts that phones chose. If such a host refuses a push or fails, the metric has a separate
    /// outcome. Therefore no alarm about a provider or an app's credentials is raised (T46.8).
    fileprivate var endsAtChosenHosts: KeyValuePairs<String, Int> {
        [
            "accepted": accepted, "token-dead": deadTokens,
            "host-refused": credentialsRefused + payloadsRefused + foreignTokens, "host-failed": failedOtherwise,
            "withdrawn": withdrawn,
        ]
    }

    fileprivate var ends: KeyValuePairs<String, Int> {
        [
            "accepted": accepted, "token-dead": deadTokens, "credentials-refused": credentialsRefused,
            "foreign-token": foreignTokens, "payload-refused": payloadsRefused, "failed": failedOtherwise,
            "withdrawn": withdrawn,
        ]
    }
}
