import PushDelivery
import Settings

/// The service token of a RuStore project is a fixed credential.
extension RuStoreApp: CredentialedApp {
    func credential(_ makers: inout CredentialMakers) throws(PushSetupError) -> PushCredentials.Source {
        settings.serviceToken.map { .fixed("Bearer " + $0.reveal()) } ?? .none
    }
}
