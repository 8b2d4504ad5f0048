/// The columns of tables, in the order in which the extensions of ``StoredRow`` read them.
///
/// A query names its columns, because a newer program can add columns while this program runs. PostgreSQL refuses a
/// prepared `SELECT *` after that.
enum Columns {
    static let account = "name, realm, ha1_md5, ha1_sha256, ha1_sha512_256"
    static let apiKey = "name, hash, scopes, created_at, domains"
    static let binding = """
        id, username, domain, contact, call_id, cseq, path, transport, listener, remote, granted, fresh_until,
        registered_at, is_push, user_agent, nonce, nonce_count
        """
    static let bucketEntry = "call_ref, username, domain, caller, date, devices, is_over, told, brought_by"
    static let deadToken = "id, recorded_at, since, provider, param, token, source, domain"
    static let deviceRequest = """
        number, id, kind, app, username, platform, token, is_tracked, callback_url, callback_signature, callback_fields,
        accepted_at
        """
    static let message = """
        id, username, domain, sender, transport, listener, remote, received_at, expires_at, devices, request
        """
    static let mobileApp = """
        name, id, org, token_hash, username, apns_provider, apns_param, fcm_param, created_at
        """
    static let provisionLink = """
        hash, name, realm, domain, created_at, expires_at, sets_password, creator, used_at, used_from
        """
    static let pushRecord = """
        username, domain, call_id, call_ref, kind, calls, device, requested_at, omission, app, code, delivery, tries,
        answer, status, reason, dead_since, provider_id, sent, answered, registered, invited, rang, ended, ending,
        ending_status, received, followed, read, sign, source, peer
        """
    static let refusedRequest = """
        share, kind, username, domain, peer, source, call_id, requested_at, refusal, status, reason
        """
    static let userRules = "username, domain, rules"
}
