package import ProxyPolicy
package import Registration

/// Limits on the logins and REGISTERs of one source (T8, T17.6).
package struct SourceLimits {
    package var logins: LoginLimit
    package var registers: RegisterLimit

    package init(_ limits: LimitSettings) {
        logins = LoginLimit(perSource: limits.wrongLoginsPerSource, perUser: limits.wrongLoginsPerUser)
        registers = RegisterLimit(limits)
    }
}
