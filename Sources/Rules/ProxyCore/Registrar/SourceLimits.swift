import Registration

/// How much one source may ask of the registrar (T8, T17.6).
struct SourceLimits {
    var logins: LoginLimit
    var registers: RegisterLimit

    init(_ limits: LimitSettings) {
        logins = LoginLimit(perSource: limits.wrongLoginsPerSource, perUser: limits.wrongLoginsPerUser)
        registers = RegisterLimit(limits)
    }
}
