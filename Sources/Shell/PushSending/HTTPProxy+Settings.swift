import HTTPClient
import PushDelivery
import Settings

extension HTTPProxy {
    /// Creates an app's HTTP proxy from the app's own setting, or else from the setting for all providers; `nil` if the
    /// settings name no proxy.
    init?(_ own: PushProxy?, else general: PushProxy?) {
        guard let chosen = PushProxy.chosen(own, else: general) else { return nil }
        let login = chosen.user.map { Login(user: $0.reveal(), password: chosen.password?.reveal() ?? "") }
        self.init(host: chosen.host, port: chosen.port, login: login)
    }
}
