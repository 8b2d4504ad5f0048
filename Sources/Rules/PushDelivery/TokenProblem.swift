/// Why push parameters in a contact or in an app's report are refused.
///
/// The daemon writes the ``sentence`` into a Warning, into HTTP answers and into the log. The ``sentence`` about a
/// token's problem contains no text from a phone.
package enum TokenProblem: Hashable, Sendable, CaseIterable {
    /// The value of `pn-provider` is unknown to the daemon.
    case unknownProvider
    /// The daemon knows the provider, but the provider is switched off or not configured.
    case providerOff
    /// The push token's app belongs to a different domain (`tenants.*.push-apps`).
    case otherDomain
    case appleParamMissing, appleTopic, appleTeam, appleToken
    case googleParamMissing, googleProject, googleToken
    case webPushResource
    case acrobitsParamMissing, acrobitsToken
    case httpParamMissing, httpApp, httpToken
    case ruStoreParamMissing, ruStoreProject, ruStoreToken

    /// A sentence that says which push parameter is missing or wrong.
    package var sentence: StaticString {
        switch self {
        case .unknownProvider: "pn-provider names an unknown push provider"
        case .providerOff: "this push provider is switched off here"
        case .otherDomain: "the app of this push token belongs to another domain"
        case .appleParamMissing:
            "pn-param names no topic, and this server has more than one or none: expected TEAM.TOPIC"
        case .appleTopic: "pn-param names a topic that is not served here"
        case .appleTeam: "pn-param names a team that is not served here"
        case .appleToken: "pn-prid is not a token of APNs: expected at least 64 hexadecimal digits"
        case .googleParamMissing: "pn-param is missing, and this server has several FCM projects"
        case .googleProject: "pn-param names an FCM project that is not served here"
        case .googleToken: "pn-prid is not a token of FCM: expected letters, digits, colon, hyphen and underscore"
        case .webPushResource: "pn-prid is not an https URL of a push service that is served here"
        case .acrobitsParamMissing: "pn-param is missing: expected the app id"
        case .acrobitsToken: "pn-prid is not a token of Acrobits, or pn-param does not fit it"
        case .httpParamMissing: "pn-param is missing: expected the name of an app"
        case .httpApp: "pn-param names an app that is not served here"
        case .httpToken: "pn-prid is not a token: expected UTF-8 without control characters"
        case .ruStoreParamMissing: "pn-param is missing, and this server has several RuStore projects"
        case .ruStoreProject: "pn-param names a RuStore project that is not served here"
        case .ruStoreToken: "pn-prid is not a token of RuStore: expected ASCII without spaces"
        }
    }

    /// The advice to the operator if earlier accepted contacts now have the problem.
    package var cure: StaticString {
        switch self {
        case .unknownProvider: "nothing: this daemon cannot push to it"
        case .providerOff: "sippushd provider enable"
        case .otherDomain: "see push-apps of the domains under tenants"
        case .appleParamMissing: "list exactly one topic, or let the app send pn-param"
        case .appleTopic: "add the topic to push.apns.topics or to one of push.apns.apps"
        case .appleTeam: "see push.apns.team-id"
        case .googleParamMissing: "let the app send pn-param"
        case .googleProject: "add the value to push.fcm.params or to one of push.fcm.apps"
        case .webPushResource: "see push.webpush.hosts"
        case .acrobitsParamMissing, .httpParamMissing, .ruStoreParamMissing: "let the app send pn-param"
        case .httpApp: "see push.http.apps"
        case .ruStoreProject: "add the project to push.rustore.apps"
        case .appleToken, .googleToken, .acrobitsToken, .httpToken, .ruStoreToken:
            "such a token cannot be pushed: the app must register another one, or remove it with device remove"
        }
    }
}
