//! The shop in a browser without scripts.

use crate::common::{Said, Shop, said};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

impl Shop {
    async fn page(&self, visitor: &str, path: &str) -> Said {
        said(self.get(visitor, path).header("accept", BROWSER)).await
    }
}

/// The value of the first attribute after `before`.
fn value<'a>(page: &'a str, before: &str, attribute: &str) -> &'a str {
    let rest = &page[page.find(before).unwrap_or_else(|| panic!("no {before} in {page}"))..];
    let start = rest.find(&format!("{attribute}=\"")).unwrap() + attribute.len() + 2;
    rest[start..].split('"').next().unwrap()
}

fn key(page: &str) -> &str {
    value(page, "name=\"idempotency_key\"", "value")
}

fn check_page(said: &Said) {
    assert_eq!(said.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(said.header("cache-control"), Some("private, no-store"));
    let policy = said.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    for inline in ["<script", "<style", " style=", " onclick=", " onload="] {
        assert!(!said.text.contains(inline), "{inline} would be refused by the policy");
    }
    assert!(said.text.contains("<html lang=\"en\">") && said.text.contains("<h1>"), "{}", said.text);
}

#[tokio::test]
async fn a_person_buys_with_forms_alone() {
    let shop = Shop::open(5).await;
    let product = shop.page("ann", "/products/runner").await;
    check_page(&product);
    assert!(product.text.contains("The runner") && product.text.contains("189.00 EUR"));
    assert!(product.text.contains("<label for=\"quantity\">"), "the select has no label");
    let action = value(&product.text, "<form", "action").to_owned();
    let fields = format!("idempotency_key={}&quantity=2", key(&product.text));
    let reserved = said(shop.form("ann", &action, &fields)).await;
    assert_eq!(reserved.status, 303, "{}", reserved.text);
    assert_eq!(reserved.header("ropeline-lease"), Some("hold"));

    let checkout = shop.page("ann", reserved.header("location").unwrap()).await;
    check_page(&checkout);
    assert!(
        checkout.text.contains("Held for you until") && checkout.text.contains("378.00 EUR"),
        "{}",
        checkout.text
    );
    assert!(
        checkout.text.contains("4242 4242 4242 4242") && checkout.text.contains("<legend>Test card</legend>")
    );
    let refresh: u64 = checkout.header("refresh").unwrap().parse().unwrap();
    assert!((1..=301).contains(&refresh), "the page comes again when the hold is over: {refresh}");
    let inputs = checkout.text.matches("type=\"radio\"").count();
    assert_eq!(checkout.text.matches("<label for=\"method-").count(), inputs, "each choice has its label");

    let action = value(&checkout.text, "<form", "action").to_owned();
    let pay = |page: &str, card: &str| format!("idempotency_key={}&payment_method={card}", key(page));
    let declined = said(shop.form("ann", &action, &pay(&checkout.text, "test_declined"))).await;
    assert_eq!(declined.status, 402);
    check_page(&declined);
    assert!(declined.text.contains("role=\"alert\"") && declined.text.contains("Nothing was charged"));
    let checkout = shop.page("ann", reserved.header("location").unwrap()).await;
    assert!(checkout.text.contains("Your last payment did not buy it"), "{}", checkout.text);
    let paid = said(shop.form("ann", &action, &pay(&checkout.text, "4242+4242+4242+4242"))).await;
    assert_eq!((paid.status.as_u16(), paid.header("ropeline-lease")), (303, Some("end")));
    let done = shop.page("ann", paid.header("location").unwrap()).await;
    check_page(&done);
    assert!(done.text.contains("<h1>It is yours</h1>"), "{}", done.text);
    assert_eq!(done.header("ropeline-lease"), Some("end"));

    let checkout = shop.page("ann", reserved.header("location").unwrap()).await;
    assert_eq!(
        checkout.header("location"),
        paid.header("location"),
        "the checkout leads on to what was bought"
    );
    let product = shop.page("ann", "/products/runner").await;
    assert!(product.text.contains("It is yours"));
    assert_eq!(shop.stock().await, (3, 0, 2));
}

#[tokio::test]
async fn a_slow_payment_s_page_looks_again_by_itself() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let paid = shop.pay("ann", "k", &held, "test_slow").await;
    let path = paid.header("location").unwrap();
    let page = shop.page("ann", path).await;
    check_page(&page);
    assert!(page.text.contains("Waiting for your bank") && page.text.contains("role=\"status\""));
    assert_eq!(page.header("refresh"), Some("2"));
    shop.let_the_bank_decide().await;
    shop.settled("ann", path, &["sold"]).await;
    let page = shop.page("ann", path).await;
    assert!(page.text.contains("It is yours"));
    assert_eq!(page.header("refresh"), None);
}

#[tokio::test]
async fn a_form_gives_back_and_the_page_says_what_is_left() {
    let shop = Shop::open(1).await;
    let held = shop.held("ann").await;
    let page = shop.page("bob", "/products/runner").await;
    assert!(page.text.contains("All of them are in other baskets"), "{}", page.text);
    let checkout = shop.page("ann", held["links"]["checkout"].as_str().unwrap()).await;
    let cancel = format!("{}/cancel", held["links"]["self"].as_str().unwrap());
    assert!(checkout.text.contains(&format!("action=\"{cancel}\"")), "{}", checkout.text);
    let given = said(shop.form("ann", &cancel, &format!("idempotency_key={}", key(&checkout.text)))).await;
    assert_eq!((given.status.as_u16(), given.header("location")), (303, Some("/products/runner")));
    assert!(shop.page("bob", "/products/runner").await.text.contains("1 left"));
    let over = shop.page("ann", held["links"]["checkout"].as_str().unwrap()).await;
    assert!(over.text.contains("You gave your unit back"), "{}", over.text);
}

#[tokio::test]
async fn problems_are_pages_for_browsers_and_documents_for_programs() {
    let shop = Shop::open(1).await;
    let page = shop.page("ann", "/products/none").await;
    assert_eq!(page.status, 404);
    check_page(&page);
    let data =
        said(shop.get("ann", "/products/none").header("accept", "application/json, text/plain, */*")).await;
    assert_eq!(data.header("content-type"), Some("application/problem+json"));
    let stranger =
        said(shop.request(reqwest::Method::GET, "/products/runner").header("accept", BROWSER)).await;
    assert_eq!(stranger.status, 401);
    check_page(&stranger);
    let form = said(shop.form("ann", "/products/runner/reservations", "quantity=9&idempotency_key=k")).await;
    assert_eq!(form.status, 422);
    check_page(&form);
    assert!(form.text.contains("Back to the product"), "{}", form.text);
    let css = said(shop.request(reqwest::Method::GET, "/assets/shop.css")).await;
    assert_eq!(css.header("content-type"), Some("text/css; charset=utf-8"));
}
