import HTTPServer
import Telemetry

/// The daemon's figures for Prometheus; docs/Metrics.md lists them.
struct MetricsRoute {
    /// Called on the loop for each request.
    let figures: () -> CounterSet

    func register(in router: inout ServiceRouter) {
        router.add("GET", "/metrics", scope: .metrics, described: .metrics) { call throws(ServiceProblem) in
            call.answer(
                HTTPResponse(
                    type: "text/plain; version=0.0.4; charset=utf-8", body: Array(figures().prometheusText.utf8)))
        }
    }
}
