import Crypto
import Foundation
import LoopTesting
import ProviderTesting
import PushDelivery
import Reactor

func withProviders(
    plans: [String: String] = [:], changing: @Sendable (inout PushSettings) -> Void = { _ in },
    _ body: (PushBench, Providers) async throws -> Void
) async throws {
    try await withProviders(plans: plans, settings: { settings, _, _ in changing(&settings) }, body)
}

/// Runs a test with all providers, including Web Push and Acrobits' push server. The function `changing` also gets the
/// URL of the servers.
func withAllProviders(
    plans: [String: String] = [:], changing: (inout PushSettings, String) throws -> Void = { _, _ in },
    _ body: (PushBench, Providers) async throws -> Void
) async throws {
    try await withProviders(
        plans: plans,
        settings: { settings, folder, url in
            try settings.addGateways(url, key: folder.path + "/key.p8")
            try changing(&settings, url)
            settings.webPush.caFile = folder.path + "/ca.pem"
            settings.acrobits.caFile = folder.path + "/ca.pem"
            for name in settings.http.apps.keys { settings.http.apps[name]?.caFile = folder.path + "/ca.pem" }
        }, body)
}

private func withProviders(
    plans: [String: String], settings change: (inout PushSettings, TestFolder, String) throws -> Void,
    _ body: (PushBench, Providers) async throws -> Void
) async throws {
    try await withFolder { folder in
        try await withLoop { loop in
            let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            try Data(certificate.certificate).write(to: URL(fileURLWithPath: folder.path + "/ca.pem"))
            let providers = Providers(loop)
            let url = try await providers.listen(certificate, plans: plans)
            var settings = try folder.settings(url)
            settings.apns.caFile = folder.path + "/ca.pem"
            settings.fcm.caFile = folder.path + "/ca.pem"
            try change(&settings, folder, url)
            let bench = PushBench(loop)
            try await bench.start(settings)
            try await body(bench, providers)
            await bench.close()
            await providers.close()
        }
    }
}
