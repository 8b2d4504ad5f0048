import PushDelivery
package import Settings
import Timekeeping
import HTTPClient
package struct APNsSettings: SettingsGroup, Hashable { package init() {}; package static let schema: [Setting<APNsSettings>] = []
 var enabled = false; var keyFile: String?; var keyID: String?; var teamID: String?; var certFile: String?; var certKeyFile: String? }
package struct FCMSettings: SettingsGroup, Hashable { package init() {}; package static let schema: [Setting<FCMSettings>] = []
 enum Body { case v1, legacy }
 var enabled = false; var bodyFormat = Body.v1; var serviceAccountFile: String?; var serverKey: Secret?; var caFile: String? }
package struct PushSettings: SettingsGroup, Hashable { package init() {}; package static let schema: [Setting<PushSettings>] = []
 var apns = APNsSettings(); var fcm = FCMSettings()
 struct M { var path = ""; var httpHeaders: [HTTPHeader] = []; var body: [UInt8] = [] }
 enum R { case request(M), impossible(PushOutcome) }
 func render(_ r: PushRequest, now: UnixTime) -> R { .impossible(.noSuitableToken) }
 func endpoint(of p: PushProvider) -> String { "" }
 func authorityFile(of p: PushProvider) -> String? { nil }
 func outcome(of p: PushProvider, status: Int, id: String?, retryAfter: Duration?, body: [UInt8]) -> PushOutcome { .retry(after: nil) }
 var configuredProviders: Set<PushProvider> { [] }
}
